import * as z from "zod/mini";
import type { NewAuthority } from "../pki/authority/new-authority.ts";
import { type OpenAuthority, SigningAuthority } from "../pki/authority/signing-authority.ts";
import type { CryptoProvider } from "../pki/crypto-provider.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { SignatureAlgorithm } from "../pki/signature-algorithm.ts";
import { AuthorityStore, type StoredRecord } from "./authority-store.ts";
import { type Custodian, openKey, refuseSeal, sealingKek, sealKey, sealParameters } from "./kek.ts";
import {
  Fields,
  parseRecordJson,
  RecordError,
  recordVersion,
  scheduleFields,
  sealFields,
  type ValuesOf,
} from "./record-fields.ts";

/** The public part of an authority as fields of a record or a backup. */
export const authorityFields = {
  schedule: z.strictObject(scheduleFields),
  certificate: Fields.octets,
  intermediates: z.array(Fields.octets).check(z.maxLength(8)),
  roots: z.array(Fields.octets).check(z.minLength(1), z.maxLength(8)),
};

/** The fields of a record in the clear. The seal on the key authenticates all of them. */
const headFields = { id: z.string(), trustDomain: z.string(), kek: z.string(), ...authorityFields };

const recordFields = { version: z.literal(recordVersion), ...headFields, ...sealFields };
const recordSchema = z.strictObject(recordFields);

type AuthorityRecordHead = ValuesOf<typeof headFields>;

/** The record of one authority, with its private key (PKCS#8) sealed under a KEK. */
export type AuthorityRecord = Omit<ValuesOf<typeof recordFields>, "version">;

/** Seals and opens the records of authorities. */
export const AuthorityRecord = {
  /** Seals a new authority under the newest KEK, and binds its key to every field of the record. */
  async seal(
    { authority, extractablePrivateKey }: NewAuthority,
    { trustDomain, keks: [kek] }: Custodian,
  ): Promise<StoredRecord> {
    const { id } = authority;
    const head = { id, trustDomain, kek: kek.id, ...AuthorityRecord.publicPart(authority) };
    const sealed = await sealKey(extractablePrivateKey, kek, boundTo(head));
    const value = formatAuthorityRecord({ ...head, ...sealed });
    return { kind: "authority", id, value };
  },

  /** The public part of an authority, for its record or a backup. */
  publicPart: (authority: SigningAuthority): ValuesOf<typeof authorityFields> => ({
    schedule: authority.schedule,
    certificate: authority.certificate.der,
    intermediates: [...authority.intermediates],
    roots: [...authority.roots],
  }),

  /**
   * Opens the record of an authority. No code can export the key, and no code trusts the record before its
   * key has opened.
   *
   * @throws RecordError unless this trust domain sealed exactly these bytes under this id with one of
   *   these KEKs.
   */
  async open(
    stored: StoredRecord,
    custodian: Custodian,
    cryptoProvider: CryptoProvider,
  ): Promise<OpenAuthority> {
    const { record, kek } = parseStored(stored, custodian);
    const authority = await readAuthority(record);
    const wrapped = {
      octets: record.sealedKey,
      wrappingKey: kek.key,
      parameters: sealParameters(record.iv, boundTo(record)),
    };
    const signingKey = await cryptoProvider
      .unwrapSigningKey(wrapped, SignatureAlgorithm.of(authority.publicKey))
      .catch(refuseSeal);
    return SigningAuthority.open(authority, signingKey);
  },

  /** Opens a record with a key that can be exported, for a backup. @throws RecordError as {@link AuthorityRecord.open}. */
  async openExtractable(stored: StoredRecord, custodian: Custodian): Promise<NewAuthority> {
    const { record, kek } = parseStored(stored, custodian);
    const authority = await readAuthority(record);
    const { importParameters } = SignatureAlgorithm.of(authority.publicKey);
    const key = await openKey(record, kek, boundTo(record), importParameters, true);
    return { authority, extractablePrivateKey: key };
  },

  /**
   * Seals a record anew under the newest KEK; `undefined` if that KEK seals it already.
   *
   * @throws RecordError as {@link AuthorityRecord.open}.
   */
  async reseal(stored: StoredRecord, custodian: Custodian): Promise<StoredRecord | undefined> {
    if (parseStored(stored, custodian).kek === custodian.keks[0]) return undefined;
    return AuthorityRecord.seal(
      await AuthorityRecord.openExtractable(stored, custodian),
      custodian,
    );
  },
};

/** What a seal binds: the purpose, the version and every field in the clear. Records that differ in one differ in this. */
export const boundTo = (head: AuthorityRecordHead): unknown => [
  "rampart authority key",
  recordVersion,
  Fields.encode(headFields, head),
];

/** The canonical text of a record. */
export const formatAuthorityRecord = (record: AuthorityRecord): string =>
  JSON.stringify(Fields.encode(recordFields, { version: recordVersion, ...record }));

/** Parses the record of an authority. It does not open the seal. @throws RecordError `form` or `version`. */
export function parseAuthorityRecord(value: string): AuthorityRecord {
  const json =
    value.length <= AuthorityStore.maximumRecordOctets ? parseRecordJson(value) : undefined;
  const version = z.object({ version: z.number() }).safeParse(json);
  if (version.success && version.data.version !== recordVersion) {
    throw new RecordError("version", `version ${version.data.version}, not ${recordVersion}`);
  }
  const parsed = recordSchema.safeParse(json);
  if (!parsed.success) {
    const field = parsed.error.issues[0]?.path.join(".");
    throw new RecordError("form", `not a record of an authority: ${field || "not JSON"}`);
  }
  // This code spells a record in one way only. Another text of the same content was written by something else.
  if (formatAuthorityRecord(parsed.data) === value) return parsed.data;
  throw new RecordError("form", "not spelled as it was sealed");
}

function parseStored(stored: StoredRecord, custodian: Custodian) {
  const record = parseAuthorityRecord(stored.value);
  return { record, kek: sealingKek(record, stored, custodian) };
}

async function readAuthority(record: AuthorityRecord): Promise<SigningAuthority> {
  try {
    const authority = await SigningAuthority.create(record, record.schedule);
    SignatureAlgorithm.of(authority.publicKey);
    if (authority.id === record.id) return authority;
  } catch (error) {
    const detail = error instanceof DerError ? error.message : "not an authority's certificate";
    throw new RecordError("certificate", detail, error);
  }
  throw new RecordError("id", "holds another authority's key");
}
