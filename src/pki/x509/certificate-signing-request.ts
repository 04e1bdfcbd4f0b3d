import { CaError } from "../../foundation/errors.ts";
import type { CryptoProvider } from "../crypto-provider.ts";
import { type Bytes, fromHexLiteral } from "../encoding/bytes.ts";
import { DerError, DerReader, Tag } from "../encoding/der-reader.ts";
import { parsePem } from "../encoding/pem.ts";
import {
  type DsaEncoding,
  fromX509Signature,
  type SignatureAlgorithm,
  signatureAlgorithms,
} from "./signature-algorithm.ts";
import {
  parseSubjectPublicKey,
  refuseSubjectKey,
  type SubjectPublicKey,
} from "./subject-public-key.ts";

/** A PKCS#10 request of an RSA-4096 key is about 1.7 kB of PEM. */
const maximumPemLength = 16 * 1024;

const labels = ["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"];
const version0 = fromHexLiteral("020100");
const attributesTag = Tag.contextConstructed(0);

interface SignedRequest {
  readonly subjectPublicKey: SubjectPublicKey;
  readonly signatureAlgorithm: SignatureAlgorithm;
  /** CertificationRequestInfo, whole: what the signature covers. */
  readonly signedBytes: Bytes;
  /** In the encoding that the provider verifies. */
  readonly signature: Bytes;
}

/**
 * The public key of a PKCS#10 request (RFC 2986) whose owner proved to hold the private key.
 *
 * The key is all there is to have from a CSR: its subject, its SAN and whatever else it asks for are
 * read past, so that nothing in them can reach a certificate.
 *
 * @param pem Exactly one PEM block.
 * @throws CaError `csr-malformed`, `csr-signature-algorithm-unacceptable`, `csr-signature-invalid`,
 *   `subject-key-unacceptable`.
 */
export async function parseCertificateSigningRequest(
  pem: string,
  cryptoProvider: CryptoProvider,
): Promise<SubjectPublicKey> {
  const request = parseRequest(pem, cryptoProvider.dsaEncoding);
  const { subjectPublicKey, signatureAlgorithm, signature, signedBytes } = request;
  const { signatureOctets = signature.length } = signatureAlgorithm;
  if (signature.length !== signatureOctets) throw refuseSignature();
  const { spki } = subjectPublicKey;
  const isKeys = await cryptoProvider.verify(spki, signatureAlgorithm, signature, signedBytes);
  // The policy has read all of the key but whether its point is on the curve; the import says that.
  if (isKeys === undefined) throw refuseSubjectKey("point");
  if (!isKeys) throw refuseSignature();
  return subjectPublicKey;
}

function refuseSignature(): CaError {
  return new CaError(
    { reason: "csr-signature-invalid" },
    "the CSR's signature does not match its public key",
  );
}

function parseRequest(pem: string, dsaEncoding: DsaEncoding): SignedRequest {
  const der = pem.length <= maximumPemLength ? parsePem(pem, labels) : undefined;
  if (!der) throw malformed("not one PEM block of a certificate signing request");
  try {
    return readRequest(der, dsaEncoding);
  } catch (error) {
    if (error instanceof DerError) throw malformed(error.message, error);
    throw error;
  }
}

function readRequest(der: Bytes, dsaEncoding: DsaEncoding): SignedRequest {
  const outer = new DerReader(der);
  const fields = outer.enter(Tag.sequence);
  outer.finish();
  const signedBytes = fields.element(Tag.sequence);
  const identifier = fields.fork();
  fields.skip(Tag.sequence);
  const signature = fields.bitStringOctets();
  fields.finish();
  const subjectPublicKey = readRequestInfo(signedBytes);
  const signatureAlgorithm = acceptedAlgorithm(subjectPublicKey, identifier);
  return {
    subjectPublicKey,
    signatureAlgorithm,
    signedBytes,
    signature: fromX509Signature(signature, signatureAlgorithm, dsaEncoding),
  };
}

function readRequestInfo(der: Bytes): SubjectPublicKey {
  const fields = new DerReader(der).enter(Tag.sequence);
  fields.literal(version0);
  fields.enter(Tag.sequence).skipAll();
  const spki = fields.element(Tag.sequence);
  fields.enter(attributesTag).skipAll();
  fields.finish();
  return parseSubjectPublicKey(spki);
}

/** The algorithm comes from the key's own list; the request only says which entry it used. */
function acceptedAlgorithm(key: SubjectPublicKey, identifier: DerReader): SignatureAlgorithm {
  const accepted = signatureAlgorithms[key.algorithm].find((algorithm) =>
    identifier.isAt(algorithm.identifier),
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
