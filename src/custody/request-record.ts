import * as z from "zod/mini";
import type { IntermediateRequest } from "../pki/authority/new-authority.ts";
import { toBase64 } from "../pki/encoding/base64.ts";
import { type Bytes, toHex } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { signatureAlgorithmOf } from "../pki/signature-algorithm.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { readRequestedKey } from "../pki/x509/certificate-signing-request.ts";
import { keyIdentifier, type SubjectPublicKey } from "../pki/x509/subject-public-key.ts";
import { instant, octets, RecordError, recordVersion } from "./authority-record.ts";
import type { StoredRecord } from "./authority-store.ts";
import type { Kek, KekRing } from "./kek.ts";
import { openWithKek, sealStatement } from "./statement.ts";

/** A request for an intermediate that has no answer yet. Its key rests sealed beside it. */
export interface AuthorityRequest {
  /** The id of the authority to be. */
  readonly id: string;
  readonly requestedAt: Date;
  /** PKCS#10, DER. */
  readonly csr: Bytes;
  readonly publicKey: SubjectPublicKey;
}

const requestForm = z.strictObject({
  requestedAt: instant,
  csr: octets,
  iv: octets,
  sealedKey: octets,
});

type RequestContent = z.infer<typeof requestForm>;

/**
 * Seals a request: a statement, whose MAC covers all of it, with the private key (PKCS#8) under AES-256-GCM.
 * To list requests, the CA authenticates them without opening a key.
 */
export async function sealRequest(
  {
    id,
    csr,
    extractablePrivateKey,
  }: Pick<IntermediateRequest, "id" | "csr" | "extractablePrivateKey">,
  requestedAt: Date,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord> {
  const [kek] = keks;
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const head = { id, requestedAt, csr };
  const parameters = gcm(iv, head, trustDomain, kek);
  const sealed = await crypto.subtle.wrapKey("pkcs8", extractablePrivateKey, kek.key, parameters);
  const says = {
    requestedAt: requestedAt.toISOString(),
    csr: toBase64(csr),
    iv: toBase64(iv),
    sealedKey: toBase64(new Uint8Array(sealed)),
  };
  return sealStatement({ kind: "request", id }, says, trustDomain, keks);
}

/** The associated data of the key's seal: its purpose, and every field in the clear. */
function gcm(
  iv: Bytes,
  { id, requestedAt, csr }: Pick<AuthorityRequest, "id" | "requestedAt" | "csr">,
  trustDomain: TrustDomain,
  kek: Kek,
): AesGcmParams {
  const head = { id, trustDomain, kek: kek.id, requestedAt, csr: toBase64(csr) };
  const bound = JSON.stringify(["rampart authority request", recordVersion, head]);
  return { name: "AES-GCM", iv, additionalData: new TextEncoder().encode(bound) as Bytes };
}

/** Opens a request without its key. @throws RecordError */
export async function openRequest(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<AuthorityRequest> {
  return (await open(stored, trustDomain, keks)).request;
}

/** Opens the key of a request, for the record of its authority. @throws RecordError */
export async function openRequestKey(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<CryptoKey> {
  const { request, content, kek } = await open(stored, trustDomain, keks);
  const { importParameters } = signatureAlgorithmOf(request.publicKey);
  const parameters = gcm(content.iv, request, trustDomain, kek);
  try {
    return await crypto.subtle.unwrapKey(
      "pkcs8",
      content.sealedKey,
      kek.key,
      parameters,
      importParameters,
      true,
      ["sign"],
    );
  } catch (error) {
    throw new RecordError("seal", "the seal does not fit the request and the KEK", error);
  }
}

/** Seals a request anew under the newest KEK; `undefined` if that KEK seals it already. @throws RecordError */
export async function resealRequest(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord | undefined> {
  const { request, kek } = await open(stored, trustDomain, keks);
  if (kek === keks[0]) return undefined;
  const extractablePrivateKey = await openRequestKey(stored, trustDomain, keks);
  return sealRequest({ ...request, extractablePrivateKey }, request.requestedAt, trustDomain, keks);
}

interface OpenedRequest {
  readonly request: AuthorityRequest;
  readonly content: RequestContent;
  readonly kek: Kek;
}

async function open(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<OpenedRequest> {
  const { says, kek } = await openWithKek(stored, trustDomain, keks);
  const parsed = requestForm.safeParse(says);
  if (!parsed.success) throw new RecordError("form", "not a request for an intermediate");
  const { requestedAt, csr } = parsed.data;
  const publicKey = keyOf(csr);
  if (toHex(keyIdentifier(publicKey)) !== stored.id) {
    throw new RecordError("id", "stored under another request's id");
  }
  return { request: { id: stored.id, requestedAt, csr, publicKey }, content: parsed.data, kek };
}

function keyOf(csr: Bytes): SubjectPublicKey {
  try {
    return readRequestedKey(csr);
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    throw new RecordError("certificate", "holds no CSR", error);
  }
}
