import * as z from "zod/mini";
import type { OpenedStore } from "../../../ca/opened-store.ts";
import { RequestedIntermediate } from "../../../ca/rotation/intermediate-request.ts";
import { AuthorityRecord, authorityFields } from "../../../custody/authority-record.ts";
import { Fields } from "../../../custody/record-fields.ts";
import type { AuthorityRequest } from "../../../custody/record-kinds.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { nodeCryptoProvider } from "../../../node/node-crypto-provider.ts";
import type { IntermediateRequest, NewAuthority } from "../../../pki/authority/new-authority.ts";
import { SigningAuthority } from "../../../pki/authority/signing-authority.ts";
import { Base64 } from "../../../pki/encoding/base64.ts";
import { type Bytes, Hex } from "../../../pki/encoding/bytes.ts";
import { type NewTokenKey, TokenKey } from "../../../pki/jose/token-key.ts";
import { SignatureAlgorithm } from "../../../pki/signature-algorithm.ts";
import { CertificateSigningRequest } from "../../../pki/x509/certificate-signing-request.ts";
import { SubjectPublicKey } from "../../../pki/x509/subject-public-key.ts";
import type { Session } from "../../session/session.ts";

/** The schema of an authority in a backup: certificates in DER, and its key as PKCS#8. */
export const authoritySchema = z.strictObject({ ...authorityFields, privateKey: Fields.octets });

type BackedUpAuthority = z.output<typeof authoritySchema>;

/** Encodes an authority with its private key for a backup. */
export async function authorityContent(created: NewAuthority): Promise<object> {
  const { authority, extractablePrivateKey } = created;
  return {
    ...Fields.encode(authorityFields, AuthorityRecord.publicPart(authority)),
    privateKey: await toPkcs8(extractablePrivateKey),
  };
}

const toPkcs8 = async (key: CryptoKey): Promise<string> =>
  Base64.format(new Uint8Array(await crypto.subtle.exportKey("pkcs8", key)));

/**
 * Parses an authority of a backup and requires that its private key belongs to its certificate.
 * @throws OperatorError for a certificate or a key that cannot be parsed, or that do not belong together.
 */
export async function openAuthority(backup: BackedUpAuthority): Promise<NewAuthority> {
  const created = await readAuthority(backup).catch(refuseContent);
  const { authority, extractablePrivateKey } = created;
  if (await isKeyOf(extractablePrivateKey, authority.publicKey)) return created;
  throw new OperatorError(`the private key of ${authority.id} does not match its certificate`);
}

async function readAuthority(backup: BackedUpAuthority): Promise<NewAuthority> {
  const { certificate, intermediates, roots } = backup;
  for (const der of [certificate, ...intermediates, ...roots])
    nodeCryptoProvider.requireReadable(der);
  const authority = await SigningAuthority.create(backup, backup.schedule);
  const extractablePrivateKey = await readPrivateKey(backup.privateKey, authority.publicKey);
  return { authority, extractablePrivateKey };
}

/** Imports a private key of a backup (PKCS#8) for the algorithm of this public key. */
function readPrivateKey(pkcs8: Bytes, publicKey: SubjectPublicKey): Promise<CryptoKey> {
  const { importParameters } = SignatureAlgorithm.of(publicKey);
  return crypto.subtle.importKey("pkcs8", pkcs8, importParameters, true, ["sign"]);
}

/**
 * Refuses the content of a backup.
 * @throws OperatorError always, without the parser's message, which may quote a key.
 */
export function refuseContent(): never {
  throw new OperatorError("the backup decrypts, but a certificate or a key in it cannot be parsed");
}

/** Whether a signature of this key verifies by that public key. */
async function isKeyOf(privateKey: CryptoKey, publicKey: SubjectPublicKey): Promise<boolean> {
  const { importParameters, signParameters } = SignatureAlgorithm.of(publicKey);
  const verifying = await crypto.subtle
    .importKey("spki", publicKey.spki, importParameters, true, ["verify"])
    .catch(refuseContent);
  const probe = new TextEncoder().encode("probe");
  const signature = await crypto.subtle.sign(signParameters, privateKey, probe);
  return crypto.subtle.verify(signParameters, verifying, signature, probe);
}

/** The schema of an open request in a backup: its CSR (PKCS#10), and its key (PKCS#8). */
export const requestSchema = z.strictObject({
  requestedAt: Fields.instant,
  csr: Fields.octets,
  privateKey: Fields.octets,
});

type BackedUpRequest = z.output<typeof requestSchema>;

/** A request of a backup, ready to be sealed. */
export interface RestoredRequest extends IntermediateRequest {
  readonly requestedAt: Date;
}

/** Encodes an open request with its private key for a backup. */
export async function requestContent(
  { mint }: Session,
  request: AuthorityRequest,
): Promise<z.input<typeof requestSchema>> {
  return {
    requestedAt: request.requestedAt.toISOString(),
    csr: Base64.format(request.csr),
    privateKey: await toPkcs8(await RequestedIntermediate.keyOf(mint, request)),
  };
}

/**
 * Parses a request of a backup and requires that its private key belongs to its CSR.
 * @throws OperatorError for a CSR or a key that cannot be parsed, or that do not belong together.
 */
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
  const publicKey = CertificateSigningRequest.readKey(csr);
  const id = Hex.format(SubjectPublicKey.keyIdentifier(publicKey));
  const extractablePrivateKey = await readPrivateKey(privateKey, publicKey);
  return { id, requestedAt, csr, publicKey, extractablePrivateKey };
}

const tokenKeyFields = { schedule: authorityFields.schedule, spki: Fields.octets };

/** The schema of a key for tokens in a backup, with its private part (PKCS#8). */
export const tokenKeySchema = z.strictObject({ ...tokenKeyFields, privateKey: Fields.octets });

/** Encodes a key for tokens with its private part for a backup. */
export async function tokenKeyContent({
  key: { schedule, spki },
  extractablePrivateKey,
}: NewTokenKey): Promise<object> {
  return {
    ...Fields.encode(tokenKeyFields, { schedule, spki }),
    privateKey: await toPkcs8(extractablePrivateKey),
  };
}

/**
 * Parses a token key of a backup and requires that its private key belongs to its public key.
 * @throws OperatorError for a key that cannot be parsed, or whose halves do not belong together.
 */
export async function readTokenKey(backup: z.output<typeof tokenKeySchema>): Promise<NewTokenKey> {
  const parse = async () => {
    const key = TokenKey.create(backup.spki, backup.schedule);
    const publicKey = SubjectPublicKey.parse(backup.spki);
    const extractablePrivateKey = await readPrivateKey(backup.privateKey, publicKey);
    return { created: { key, extractablePrivateKey }, publicKey };
  };
  const { created, publicKey } = await parse().catch(refuseContent);
  if (await isKeyOf(created.extractablePrivateKey, publicKey)) return created;
  throw new OperatorError(`the private key of ${created.key.id} does not match its public key`);
}

/**
 * Chooses which keys for tokens of a backup are restored: all, or none if the store has a live one that the backup
 * lacks, because relying parties with the store's key set would refuse the tokens of an older key.
 */
export function restoredTokenKeys(
  tokenKeys: readonly NewTokenKey[],
  store: OpenedStore,
  now: Date,
): readonly NewTokenKey[] {
  const held = new Set(tokenKeys.map(({ key }) => key.id));
  const hasOthers = store.tokenKeys.some(
    ({ id, schedule }) => now < schedule.retiresAt && !held.has(id),
  );
  return hasOthers ? [] : tokenKeys;
}
