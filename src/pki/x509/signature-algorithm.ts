import { allocateBytes, type Bytes, fromHexLiteral } from "../encoding/bytes.ts";
import { DerReader, Tag } from "../encoding/der-reader.ts";
import type { DerBuilder } from "../encoding/der-writer.ts";

/** The keys that a certificate of Rampart may certify, by the name used in logs and configuration. */
export type SubjectKeyAlgorithm = "EC-P256" | "EC-P384" | "EC-P521" | "RSA" | "Ed25519";

type Hash = "SHA-256" | "SHA-384" | "SHA-512";

/**
 * One way to sign: the AlgorithmIdentifier on the wire, and what WebCrypto needs to import the key
 * and to check or make the signature.
 */
export interface SignatureAlgorithm {
  readonly name: string;
  /** AlgorithmIdentifier, whole. RFC 5758 §3.2: ECDSA without parameters; RFC 4055 §5: RSA with NULL. */
  readonly identifier: Bytes;
  readonly importParameters: RsaHashedImportParams | EcKeyImportParams | Algorithm;
  readonly signParameters: EcdsaParams | Algorithm;
  /** Octets of r and of s when the signature is ECDSA, else `undefined`. */
  readonly scalarOctets: number | undefined;
  /** Octets of WebCrypto's signature where all have the same: another length is a fault to workerd. */
  readonly signatureOctets: number | undefined;
}

/** The algorithms that a key of each kind may sign with. SHA-1, MD5, DSA and PSS are not on the list. */
export const signatureAlgorithms: Record<SubjectKeyAlgorithm, readonly SignatureAlgorithm[]> = {
  "EC-P256": ellipticCurve("P-256", 32),
  "EC-P384": ellipticCurve("P-384", 48),
  "EC-P521": ellipticCurve("P-521", 66),
  RSA: [rsa("SHA-256", "0b"), rsa("SHA-384", "0c"), rsa("SHA-512", "0d")],
  Ed25519: [
    {
      name: "Ed25519",
      identifier: fromHexLiteral("300506032b6570"),
      importParameters: { name: "Ed25519" },
      signParameters: { name: "Ed25519" },
      scalarOctets: undefined,
      signatureOctets: 64,
    },
  ],
};

function ellipticCurve(namedCurve: string, scalarOctets: number): SignatureAlgorithm[] {
  const withHash = (hash: Hash, lastArc: string): SignatureAlgorithm => ({
    name: `ecdsa-with-${hash}`,
    identifier: fromHexLiteral(`300a06082a8648ce3d0403${lastArc}`),
    importParameters: { name: "ECDSA", namedCurve },
    signParameters: { name: "ECDSA", hash },
    scalarOctets,
    signatureOctets: 2 * scalarOctets,
  });
  return [withHash("SHA-256", "02"), withHash("SHA-384", "03"), withHash("SHA-512", "04")];
}

function rsa(hash: Hash, lastArc: string): SignatureAlgorithm {
  return {
    name: `${hash}-with-rsa`,
    identifier: fromHexLiteral(`300d06092a864886f70d0101${lastArc}0500`),
    importParameters: { name: "RSASSA-PKCS1-v1_5", hash },
    signParameters: { name: "RSASSA-PKCS1-v1_5" },
    scalarOctets: undefined,
    signatureOctets: undefined,
  };
}

/**
 * Prepends a signature as X.509 carries it: for ECDSA the `SEQUENCE { r, s }` of RFC 3279 §2.2.3 in
 * place of WebCrypto's `r || s`.
 */
export function prependX509Signature(
  der: DerBuilder,
  { scalarOctets }: SignatureAlgorithm,
  signature: Bytes,
): void {
  if (scalarOctets === undefined) {
    der.prepend(signature);
    return;
  }
  const end = der.position;
  der.prependUnsignedInteger(signature, scalarOctets);
  der.prependUnsignedInteger(signature, 0, scalarOctets);
  der.close(Tag.sequence, end);
}

/**
 * The signature as WebCrypto wants it.
 *
 * @throws DerError when an ECDSA signature is not two integers of at most the curve's size.
 */
export function fromX509Signature(algorithm: SignatureAlgorithm, signature: Bytes): Bytes {
  const { scalarOctets } = algorithm;
  if (scalarOctets === undefined) return signature;
  const outer = new DerReader(signature);
  const integers = outer.enter(Tag.sequence);
  outer.finish();
  const scalars = allocateBytes(2 * scalarOctets);
  integers.unsignedIntegerInto(scalars, 0, scalarOctets);
  integers.unsignedIntegerInto(scalars, scalarOctets, 2 * scalarOctets);
  integers.finish();
  return scalars;
}
