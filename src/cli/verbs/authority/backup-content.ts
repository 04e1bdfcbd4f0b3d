import * as z from "zod/mini";
import { requestedKey } from "../../../ca/rotation/install-intermediate.ts";
import { instant, octets } from "../../../custody/record-fields.ts";
import type { AuthorityRequest } from "../../../custody/record-kinds.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { requireReadable } from "../../../node/node-crypto-provider.ts";
import type { IntermediateRequest, NewAuthority } from "../../../pki/authority/new-authority.ts";
import type { Schedule } from "../../../pki/authority/schedule.ts";
import { createSigningAuthority } from "../../../pki/authority/signing-authority.ts";
import { toBase64 } from "../../../pki/encoding/base64.ts";
import { type Bytes, toHex } from "../../../pki/encoding/bytes.ts";
import { signatureAlgorithmOf } from "../../../pki/signature-algorithm.ts";
import { readRequestedKey } from "../../../pki/x509/certificate-signing-request.ts";
import { keyIdentifier, type SubjectPublicKey } from "../../../pki/x509/subject-public-key.ts";
import type { Session } from "../../session/session.ts";

/** An authority in a backup: certificates in DER, and its key as PKCS#8. */
interface BackedUpAuthority {
  readonly certificate: Bytes;
  readonly intermediates: Bytes[];
  readonly roots: Bytes[];
  readonly schedule: Schedule;
  readonly privateKey: Bytes;
}

/** @throws OperatorError */
export async function openAuthority(backup: BackedUpAuthority): Promise<NewAuthority> {
  const created = await readAuthority(backup).catch(refuseContent);
  const { authority, extractablePrivateKey } = created;
  if (await isKeyOf(extractablePrivateKey, authority.publicKey)) return created;
  throw new OperatorError(`the private key of ${authority.id} does not match its certificate`);
}

async function readAuthority(backup: BackedUpAuthority): Promise<NewAuthority> {
  const { certificate, intermediates, roots } = backup;
  for (const der of [certificate, ...intermediates, ...roots]) requireReadable(der);
  const authority = await createSigningAuthority(backup, backup.schedule);
  const extractablePrivateKey = await readPrivateKey(backup.privateKey, authority.publicKey);
  return { authority, extractablePrivateKey };
}

/** A private key of a backup, PKCS#8, for the algorithm of this public key. */
function readPrivateKey(pkcs8: Bytes, publicKey: SubjectPublicKey): Promise<CryptoKey> {
  const { importParameters } = signatureAlgorithmOf(publicKey);
  return crypto.subtle.importKey("pkcs8", pkcs8, importParameters, true, ["sign"]);
}

/** A parser's own message may quote what it parsed, which is a key. */
export function refuseContent(): never {
  throw new OperatorError("the backup decrypts, but a certificate or a key in it cannot be parsed");
}

/** Whether a signature of this key verifies by that public key. */
async function isKeyOf(privateKey: CryptoKey, publicKey: SubjectPublicKey): Promise<boolean> {
  const { importParameters, signParameters } = signatureAlgorithmOf(publicKey);
  const verifying = await crypto.subtle
    .importKey("spki", publicKey.spki, importParameters, true, ["verify"])
    .catch(refuseContent);
  const probe = new TextEncoder().encode("probe");
  const signature = await crypto.subtle.sign(signParameters, privateKey, probe);
  return crypto.subtle.verify(signParameters, verifying, signature, probe);
}

/** The form of an open request in a backup: its CSR (PKCS#10), and its key (PKCS#8). */
export const requestForm = z.strictObject({
  requestedAt: instant,
  csr: octets,
  privateKey: octets,
});

type BackedUpRequest = z.output<typeof requestForm>;

/** A request of a backup, ready to be sealed. */
export interface RestoredRequest extends IntermediateRequest {
  readonly requestedAt: Date;
}

/** An open request with its key, for a backup. */
export async function requestContent(
  { mint }: Session,
  request: AuthorityRequest,
): Promise<z.input<typeof requestForm>> {
  const privateKey = await crypto.subtle.exportKey("pkcs8", await requestedKey(mint, request));
  return {
    requestedAt: request.requestedAt.toISOString(),
    csr: toBase64(request.csr),
    privateKey: toBase64(new Uint8Array(privateKey)),
  };
}

/** @throws OperatorError for a CSR or a key that cannot be parsed, or that do not belong together. */
export async function readRequest(backup: BackedUpRequest): Promise<RestoredRequest> {
  const request = await parseRequest(backup).catch(refuseContent);
  if (await isKeyOf(request.extractablePrivateKey, request.publicKey)) return request;
  throw new OperatorError(`the private key of ${request.id} does not match its request`);
}

async function parseRequest({
  requestedAt,
  csr,
  privateKey,
}: BackedUpRequest): Promise<RestoredRequest> {
  const publicKey = readRequestedKey(csr);
  const id = toHex(keyIdentifier(publicKey));
  const extractablePrivateKey = await readPrivateKey(privateKey, publicKey);
  return { id, requestedAt, csr, publicKey, extractablePrivateKey };
}
