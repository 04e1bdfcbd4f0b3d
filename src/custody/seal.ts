import type { NewAuthority } from "../pki/authority/new-authority.ts";
import {
  createIssuer,
  createSigningAuthority,
  type Issuer,
  type SigningAuthority,
} from "../pki/authority/signing-authority.ts";
import type { CryptoProvider, SigningKey } from "../pki/crypto-provider.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { signatureAlgorithmOf } from "../pki/signature-algorithm.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import {
  type AuthorityRecord,
  type AuthorityRecordHead,
  associatedData,
  formatAuthorityRecord,
  parseAuthorityRecord,
  RecordError,
} from "./authority-record.ts";
import type { StoredRecord } from "./authority-store.ts";
import type { Kek, KekRing } from "./kek.ts";
import { sealingKek } from "./sealed-head.ts";

const gcm = (iv: Bytes, additionalData: Bytes): AesGcmParams => ({
  name: "AES-GCM",
  iv,
  additionalData,
});

/** Seals a new authority under the newest KEK. */
export async function sealAuthority(
  { authority, extractablePrivateKey }: NewAuthority,
  trustDomain: TrustDomain,
  [kek]: KekRing,
): Promise<StoredRecord> {
  const { id, schedule, intermediates, roots } = authority;
  const certificate = authority.certificate.der;
  const head = { id, trustDomain, kek: kek.id, schedule, certificate, intermediates, roots };
  return seal(head, extractablePrivateKey, kek);
}

/**
 * Wraps a key with a fresh 96-bit IV (NIST SP 800-38D §8.2.2) and binds it to every field of the
 * record.
 */
async function seal(
  head: AuthorityRecordHead,
  extractableKey: CryptoKey,
  kek: Kek,
): Promise<StoredRecord> {
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const parameters = gcm(iv, associatedData(head));
  const sealed = await crypto.subtle.wrapKey("pkcs8", extractableKey, kek.key, parameters);
  const value = formatAuthorityRecord({ ...head, iv, sealedKey: new Uint8Array(sealed) });
  return { kind: "authority", id: head.id, value };
}

/**
 * Opens the record of an authority. No code can export the key, and no code trusts the record before its
 * key has opened.
 *
 * @throws RecordError unless this trust domain sealed exactly these bytes under this id with one of
 *   these KEKs.
 */
export async function openAuthority(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
  cryptoProvider: CryptoProvider,
): Promise<Issuer> {
  const { record, kek } = parseStored(stored, trustDomain, keks);
  const authority = await readAuthority(record);
  return createIssuer(authority, await openKey(record, authority, kek, cryptoProvider));
}

/**
 * Opens a record with a key that can be exported, for a backup.
 *
 * @throws RecordError as {@link openAuthority}.
 */
export async function openExtractable(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<NewAuthority> {
  const { record, kek } = parseStored(stored, trustDomain, keks);
  return openToSeal(record, kek);
}

/**
 * Seals a record anew under the newest KEK; `undefined` if that KEK seals it already.
 *
 * @throws RecordError as {@link openAuthority}.
 */
export async function resealAuthority(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord | undefined> {
  const { record, kek } = parseStored(stored, trustDomain, keks);
  if (kek === keks[0]) return undefined;
  return sealAuthority(await openToSeal(record, kek), trustDomain, keks);
}

async function openToSeal(record: AuthorityRecord, kek: Kek): Promise<NewAuthority> {
  const authority = await readAuthority(record);
  return { authority, extractablePrivateKey: await openExtractableKey(record, authority, kek) };
}

function parseStored(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): { readonly record: AuthorityRecord; readonly kek: Kek } {
  const record = parseAuthorityRecord(stored.value);
  return { record, kek: sealingKek(record, stored, trustDomain, keks) };
}

async function readAuthority(record: AuthorityRecord): Promise<SigningAuthority> {
  const authority = await certificateOf(record);
  if (authority.id !== record.id) throw new RecordError("id", "holds another authority's key");
  return authority;
}

async function certificateOf(record: AuthorityRecord): Promise<SigningAuthority> {
  try {
    const authority = await createSigningAuthority(record, record.schedule);
    signatureAlgorithmOf(authority.publicKey);
    return authority;
  } catch (error) {
    const detail = error instanceof DerError ? error.message : "not an authority's certificate";
    throw new RecordError("certificate", detail, error);
  }
}

async function openKey(
  record: AuthorityRecord,
  { publicKey }: SigningAuthority,
  kek: Kek,
  cryptoProvider: CryptoProvider,
): Promise<SigningKey> {
  const parameters = gcm(record.iv, associatedData(record));
  const wrapped = { octets: record.sealedKey, wrappingKey: kek.key, parameters };
  return cryptoProvider
    .unwrapSigningKey(wrapped, signatureAlgorithmOf(publicKey))
    .catch(refuseSeal);
}

async function openExtractableKey(
  record: AuthorityRecord,
  { publicKey }: SigningAuthority,
  kek: Kek,
): Promise<CryptoKey> {
  const { importParameters } = signatureAlgorithmOf(publicKey);
  const parameters = gcm(record.iv, associatedData(record));
  return crypto.subtle
    .unwrapKey("pkcs8", record.sealedKey, kek.key, parameters, importParameters, true, ["sign"])
    .catch(refuseSeal);
}

function refuseSeal(error: unknown): never {
  throw new RecordError("seal", "the seal does not fit the record and the KEK", error);
}
