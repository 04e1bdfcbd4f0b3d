import * as z from "zod/mini";
import { requestedKey } from "../../../../ca/upstream/requests.ts";
import { instant, octets } from "../../../../custody/record-fields.ts";
import type { AuthorityRequest } from "../../../../custody/record-kinds.ts";
import { OperatorError } from "../../../../foundation/errors.ts";
import type { IntermediateRequest } from "../../../../pki/authority/new-authority.ts";
import { toBase64 } from "../../../../pki/encoding/base64.ts";
import { type Bytes, toHex } from "../../../../pki/encoding/bytes.ts";
import { readRequestedKey } from "../../../../pki/x509/certificate-signing-request.ts";
import { keyIdentifier } from "../../../../pki/x509/subject-public-key.ts";
import type { Session } from "../../../session/session.ts";
import { isKeyOf, readPrivateKey, refuseContent } from "./backup-authority.ts";

/** An open request in a backup: its CSR (PKCS#10), and its key (PKCS#8). */
interface BackedUpRequest {
  readonly requestedAt: Date;
  readonly csr: Bytes;
  readonly privateKey: Bytes;
}

/** {@link BackedUpRequest} as JSON. */
type RequestJson = Readonly<Record<keyof BackedUpRequest, string>>;

/** The form of an open request in a backup. */
export const requestForm: z.ZodMiniType<BackedUpRequest, RequestJson> = z.strictObject({
  requestedAt: instant,
  csr: octets,
  privateKey: octets,
});

/** A request of a backup, ready to be sealed. */
export interface RestoredRequest extends IntermediateRequest {
  readonly requestedAt: Date;
}

/** An open request with its key, for a backup. */
export async function requestContent(
  { mint }: Session,
  request: AuthorityRequest,
): Promise<RequestJson> {
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
