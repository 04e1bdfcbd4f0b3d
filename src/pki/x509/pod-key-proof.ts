import { CaError } from "../../foundation/errors.ts";
import type { CryptoProvider } from "../crypto-provider.ts";
import { Base64 } from "../encoding/base64.ts";
import type { Bytes } from "../encoding/bytes.ts";
import { DerError } from "../encoding/der-reader.ts";
import { Pem } from "../encoding/pem.ts";
import { rsaPss, type SignatureScheme, signatureAlgorithms } from "../signature-algorithm.ts";
import { fromX509Signature } from "../signature-reader.ts";
import { SubjectPublicKey } from "./subject-public-key.ts";

/** The proof of possession of a PodCertificateRequest: a signature by its key over the UID of its pod. */
export interface PodKeyProof {
  readonly podUid: string;
  readonly signature: Bytes;
}

/** Parses and verifies the proof that a pod has the private key of a public key. */
export const PodKeyProof = {
  /**
   * Reads a proof of possession; `undefined` for anything else.
   *
   * The form of the UID matters: a caller that could choose the signed text might present a signature that
   * the key made for another protocol.
   *
   * @param signature In base64.
   */
  parse(podUid: string, signature: string): PodKeyProof | undefined {
    const octets = signature === "" ? undefined : Base64.parse(signature);
    return octets && PodKeyProof.podUid.test(podUid) ? { podUid, signature: octets } : undefined;
  },

  /**
   * Reads a public key and verifies that its holder has signed the UID of a pod. The API server does so for
   * `pkixPublicKey` and `proofOfPossession` (KEP-4317).
   *
   * @param pem Exactly one PEM block of a SubjectPublicKeyInfo.
   * @throws CaError `csr-malformed`, `csr-signature-invalid`, `subject-key-unacceptable`.
   */
  async parseKey(
    pem: string,
    { podUid, signature }: PodKeyProof,
    cryptoProvider: CryptoProvider,
  ): Promise<SubjectPublicKey> {
    const publicKey = parseKey(pem);
    const signed = new TextEncoder().encode(podUid);
    try {
      for (const scheme of schemesOf(publicKey, signature)) {
        const octets = fromX509Signature(signature, scheme, cryptoProvider.dsaEncoding);
        const isKeys = await cryptoProvider.verify(publicKey.spki, scheme, octets, signed);
        if (isKeys === undefined) throw SubjectPublicKey.refuse("point");
        if (isKeys) return publicKey;
      }
    } catch (error) {
      throw error instanceof DerError ? invalid(error) : error;
    }
    throw invalid();
  },

  /** A UUID in the one form in which Kubernetes writes it. */
  podUid: /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
};

const maximumPemLength = 4096;

function parseKey(pem: string): SubjectPublicKey {
  const der = pem.length <= maximumPemLength ? Pem.parse(pem, ["PUBLIC KEY"]) : undefined;
  if (!der) throw malformed("not one PEM block of a public key");
  try {
    return SubjectPublicKey.parse(der);
  } catch (error) {
    if (error instanceof DerError) throw malformed(error.message, error);
    throw error;
  }
}

const shaOctets = 32;

/** The schemes of a proof: SHA-256, except for Ed25519. A PSS salt may have the greatest length, as in Go, or that of the hash. */
function schemesOf(key: SubjectPublicKey, { length }: Bytes): readonly SignatureScheme[] {
  const [first] = signatureAlgorithms[key.algorithm];
  switch (key.algorithm) {
    case "RSA":
      // Some platforms throw on a signature of another length, instead of returning `false`.
      if (length !== SubjectPublicKey.rsaModulus(key).length) return [];
      return [length - shaOctets - 2, shaOctets].map(pssWithSalt);
    case "Ed25519":
      return first && length === first.signatureOctets ? [first] : [];
    default:
      return first ? [first] : [];
  }
}

function pssWithSalt(saltLength: number): SignatureScheme {
  return { ...rsaPss("SHA-256"), signParameters: { name: "RSA-PSS", saltLength } };
}

function invalid(cause?: unknown): CaError {
  return new CaError(
    { reason: "csr-signature-invalid" },
    "the proof of possession does not match the public key",
    cause,
  );
}

function malformed(detail: string, cause?: unknown): CaError {
  return new CaError({ reason: "csr-malformed" }, `malformed public key: ${detail}`, cause);
}
