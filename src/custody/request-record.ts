import type { IntermediateRequest } from "../pki/authority/new-authority.ts";
import { toBase64 } from "../pki/encoding/base64.ts";
import { signatureAlgorithmOf } from "../pki/signature-algorithm.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import type { StoredRecord } from "./authority-store.ts";
import { type Kek, type KekRing, openKey, sealKey } from "./kek.ts";
import { recordVersion } from "./record-fields.ts";
import type { AuthorityRequest } from "./record-kinds.ts";
import { openContent, openStatement, sealStatement } from "./statement.ts";

/**
 * Seals a request: a statement, whose MAC covers all of it, with the private key (PKCS#8) under AES-256-GCM.
 * To list requests, the CA authenticates them without opening a key.
 */
export async function sealRequest(
  { extractablePrivateKey, ...request }: IntermediateRequest,
  requestedAt: Date,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord> {
  const [kek] = keks;
  const bound = boundTo({ ...request, requestedAt }, trustDomain, kek);
  const sealed = await sealKey(extractablePrivateKey, kek, bound);
  return sealStatement("request", { ...request, requestedAt, ...sealed }, trustDomain, keks);
}

/** The purpose of the key's seal, and every field in the clear. */
function boundTo(
  { id, requestedAt, csr }: Pick<AuthorityRequest, "id" | "requestedAt" | "csr">,
  trustDomain: TrustDomain,
  kek: Kek,
): unknown {
  const head = { id, trustDomain, kek: kek.id, requestedAt, csr: toBase64(csr) };
  return ["rampart authority request", recordVersion, head];
}

/** Opens the key of a request, for the record of its authority. @throws RecordError */
export async function openRequestKey(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<CryptoKey> {
  const request = await openStatement("request", stored, trustDomain, keks);
  const { kek } = await openContent(stored, trustDomain, keks);
  const { importParameters } = signatureAlgorithmOf(request.publicKey);
  return openKey(request, kek, boundTo(request, trustDomain, kek), importParameters, true);
}

/** Seals a request anew under the newest KEK; `undefined` if that KEK seals it already. @throws RecordError */
export async function resealRequest(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord | undefined> {
  const request = await openStatement("request", stored, trustDomain, keks);
  const { kek } = await openContent(stored, trustDomain, keks);
  if (kek === keks[0]) return undefined;
  const extractablePrivateKey = await openRequestKey(stored, trustDomain, keks);
  return sealRequest({ ...request, extractablePrivateKey }, request.requestedAt, trustDomain, keks);
}
