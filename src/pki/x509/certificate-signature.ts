import type { CryptoProvider, SigningKey } from "../crypto-provider.ts";
import { Bytes, Hex } from "../encoding/bytes.ts";
import { DerError, DerReader, Tag } from "../encoding/der-reader.ts";
import { DerBuilder } from "../encoding/internal/der-builder.ts";
import { readObjectIdentifier } from "../encoding/internal/der-values.ts";
import {
  type HashName,
  rsaPss,
  type SignatureAlgorithm,
  signatureAlgorithms,
} from "../signature-algorithm.ts";
import { fromX509Signature } from "../signature-reader.ts";
import { prependX509Signature } from "../signature-writer.ts";
import { webCryptoProvider } from "../web-crypto.ts";
import type { Signed } from "./certificate.ts";
import type { SubjectPublicKey } from "./subject-public-key.ts";

/**
 * Whether a certificate is signed with this key, by an algorithm that keys of its kind may use here.
 * SHA-1, MD5, PSS and the algorithms of another kind of key give `false`.
 *
 * @param algorithms Only {@link isSignedByKey} accepts others.
 * @throws DerError when an ECDSA signature is not two integers of at most the curve's size.
 */
export async function isSignedWith(
  { signatureAlgorithm, signedBytes, signature }: Signed,
  key: SubjectPublicKey,
  cryptoProvider: CryptoProvider,
  algorithms: readonly PathAlgorithm[] = signatureAlgorithms[key.algorithm],
): Promise<boolean> {
  const algorithm = algorithms.find((each) => Bytes.equal(each.identifier, signatureAlgorithm));
  if (!algorithm) return false;
  const octets = fromX509Signature(signature, algorithm, cryptoProvider.dsaEncoding);
  if (octets.length !== (algorithm.signatureOctets ?? octets.length)) return false;
  return (await cryptoProvider.verify(key.spki, algorithm, octets, signedBytes)) === true;
}

type PathAlgorithm = Omit<SignatureAlgorithm, "name">;

/** RSASSA-PSS as RFC 4055 §3.1 writes it: the same hash for the message and for MGF1, and a salt as long as the hash. */
const pss: readonly PathAlgorithm[] = [
  pssWith("SHA-256", "01", "20"),
  pssWith("SHA-384", "02", "30"),
  pssWith("SHA-512", "03", "40"),
];

function pssWith(hash: HashName, arc: string, saltOctets: string): PathAlgorithm {
  const digest = `300d06096086480165030402${arc}0500`;
  const parameters = `3034a00f${digest}a11c301a06092a864886f70d010108${digest}a2030201${saltOctets}`;
  const identifier = Hex.parseLiteral(`304106092a864886f70d01010a${parameters}`);
  return { ...rsaPss(hash), identifier };
}

/** Names of algorithms that verifiers refuse, for the operator. */
const refused: ReadonlyMap<string, string> = new Map([
  ["1.2.840.113549.1.1.4", "MD5"],
  ["1.2.840.113549.1.1.5", "SHA-1"],
  ["1.2.840.10045.4.1", "SHA-1"],
  ["1.2.840.10045.4.3.1", "SHA-224"],
]);

/** The algorithm of a signature that verifiers refuse: its name or object identifier; else `undefined`. */
export function refusedAlgorithmOf({ signatureAlgorithm }: Signed): string | undefined {
  const known = [...Object.values(signatureAlgorithms).flat(), ...pss];
  if (known.some(({ identifier }) => Bytes.equal(identifier, signatureAlgorithm))) return undefined;
  const oid = readObjectIdentifier(new DerReader(signatureAlgorithm).enter(Tag.sequence));
  return refused.get(oid) ?? oid;
}

/**
 * Whether a certificate is signed with this key. Unlike {@link isSignedWith} it accepts RSASSA-PSS, and a malformed
 * signature is `false`. It uses WebCrypto itself, because only paths to foreign roots have RSASSA-PSS, and they are rare.
 */
export async function isSignedByKey(signed: Signed, key: SubjectPublicKey): Promise<boolean> {
  const own = signatureAlgorithms[key.algorithm];
  const algorithms = key.algorithm === "RSA" ? [...own, ...pss] : own;
  try {
    return await isSignedWith(signed, key, webCryptoProvider, algorithms);
  } catch (error) {
    if (error instanceof DerError || error instanceof DOMException) return false;
    throw error;
  }
}

/**
 * Signs to-be-signed bytes and puts them together with the signature, as certificates and CRLs are
 * (RFC 5280 §4.1 and §5.1). Callers lint the bytes first.
 */
export async function signStructure(toBeSigned: Bytes, signingKey: SigningKey): Promise<Bytes> {
  const { algorithm, dsaEncoding } = signingKey;
  const signed = await signingKey.sign(toBeSigned);
  const signature = ArrayBuffer.isView(signed) ? signed : new Uint8Array(signed);
  const headers = 32;
  const room = toBeSigned.length + algorithm.identifier.length + signature.length + headers;
  const der = new DerBuilder(room);
  const end = der.position;
  prependX509Signature(der, signature, algorithm, dsaEncoding);
  der.closeBitString(end);
  der.prepend(algorithm.identifier);
  der.prepend(toBeSigned);
  der.close(Tag.sequence, end);
  return der.finish();
}
