import { CaError } from "../../foundation/errors.ts";
import type { CryptoProvider } from "../crypto-provider.ts";
import { Bytes } from "../encoding/bytes.ts";
import { DerError, DerReader, Tag } from "../encoding/der-reader.ts";
import { Pem } from "../encoding/pem.ts";
import {
  type DsaEncoding,
  type SignatureAlgorithm,
  signatureAlgorithms,
} from "../signature-algorithm.ts";
import { fromX509Signature } from "../signature-reader.ts";
import { readSigned } from "./certificate.ts";
import { version0 } from "./request-to-be-signed.ts";
import { SubjectPublicKey } from "./subject-public-key.ts";

/** The longest PEM. That of a CSR for an RSA-4096 key has about 1.7 kB. */
const maximumPemLength = 16 * 1024;

/** The labels of a CSR in PEM. */
export const requestLabels: readonly string[] = ["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"];
const attributesTag = Tag.contextConstructed(0);

/** Parses CSRs (PKCS#10, RFC 2986). */
export const CertificateSigningRequest = {
  /**
   * Reads the public key of a CSR (PKCS#10, RFC 2986) and verifies that its sender holds the private key.
   *
   * The key is all that this code takes from a CSR. It skips the subject, the SAN and everything else, so
   * that nothing of them can reach a certificate.
   *
   * @param pem Exactly one PEM block.
   * @throws CaError `csr-malformed`, `csr-signature-algorithm-unacceptable`, `csr-signature-invalid`,
   *   `subject-key-unacceptable`.
   */
  async parse(pem: string, cryptoProvider: CryptoProvider): Promise<SubjectPublicKey> {
    const request = parseRequest(pem, cryptoProvider.dsaEncoding);
    const { publicKey, algorithm, signature, signedBytes } = request;
    const { signatureOctets = signature.length } = algorithm;
    if (signature.length !== signatureOctets) throw refuseSignature();
    const isKeys = await cryptoProvider.verify(publicKey.spki, algorithm, signature, signedBytes);
    // The key policy leaves one question to the import: whether the point is on its curve.
    if (isKeys === undefined) throw SubjectPublicKey.refuse("point");
    if (!isKeys) throw refuseSignature();
    return publicKey;
  },

  /**
   * Reads the public key of a CSR (DER) that this CA itself has made. The signature is not verified.
   * @throws DerError for any other octets.
   */
  readKey(der: Bytes): SubjectPublicKey {
    return readRequestInfo(new DerReader(der).enter(Tag.sequence).element(Tag.sequence));
  },
};

function refuseSignature(): CaError {
  return new CaError(
    { reason: "csr-signature-invalid" },
    "the CSR's signature does not match its public key",
  );
}

function parseRequest(pem: string, dsaEncoding: DsaEncoding) {
  const der = pem.length <= maximumPemLength ? Pem.parse(pem, requestLabels) : undefined;
  if (!der) throw malformed("not one PEM block of a certificate signing request");
  try {
    return readRequest(der, dsaEncoding);
  } catch (error) {
    if (error instanceof DerError) throw malformed(error.message, error);
    throw error;
  }
}

function readRequest(der: Bytes, dsaEncoding: DsaEncoding) {
  const { signedBytes, signatureAlgorithm, signature } = readSigned(der);
  const publicKey = readRequestInfo(signedBytes);
  const algorithm = acceptedAlgorithm(publicKey, signatureAlgorithm);
  const octets = fromX509Signature(signature, algorithm, dsaEncoding);
  return { publicKey, algorithm, signedBytes, signature: octets };
}

function readRequestInfo(der: Bytes): SubjectPublicKey {
  const fields = new DerReader(der).enter(Tag.sequence);
  fields.literal(version0);
  fields.enter(Tag.sequence).skipAll();
  const spki = fields.element(Tag.sequence);
  fields.enter(attributesTag).skipAll();
  fields.finish();
  return SubjectPublicKey.parse(spki);
}

/** The algorithm that a CSR names. Refuses one with which keys of its kind may not sign here. */
function acceptedAlgorithm(key: SubjectPublicKey, named: Bytes): SignatureAlgorithm {
  const accepted = signatureAlgorithms[key.algorithm].find(
    ({ identifier, identifierWithoutNull = identifier }) =>
      Bytes.equal(named, identifier) || Bytes.equal(named, identifierWithoutNull),
  );
  if (accepted) return accepted;
  throw new CaError(
    { reason: "csr-signature-algorithm-unacceptable" },
    `the CSR is signed with an algorithm that ${key.algorithm} keys may not use here`,
  );
}

function malformed(detail: string, cause?: unknown): CaError {
  return new CaError({ reason: "csr-malformed" }, `malformed CSR: ${detail}`, cause);
}
