import { AuthorityRecord } from "../../../src/custody/authority-record.ts";
import type { StoredRecord } from "../../../src/custody/authority-store.ts";
import { Kek } from "../../../src/custody/kek.ts";
import { type AuthorityKey, NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import type { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { clusterLocal, tenDays } from "./certificates.ts";

/** Makes a KEK, of random octets unless they are given. */
export const createKek = (
  id: string,
  octets: Uint8Array<ArrayBuffer> = crypto.getRandomValues(new Uint8Array(Kek.octets)),
): Promise<Kek> => Kek.import(id, octets);

/** Makes the record of a new authority. */
export async function createRecord(
  kek: Kek,
  key: AuthorityKey = "EC-P256",
  domain: TrustDomain = clusterLocal,
): Promise<StoredRecord> {
  return AuthorityRecord.seal(await NewAuthority.create(domain, key, tenDays), {
    trustDomain: domain,
    keks: [kek],
  });
}

/** The fields of an authority's record, for a test to change. */
export interface RecordFields {
  version: unknown;
  id: string;
  trustDomain: string;
  kek: string;
  schedule: Record<"publishedFrom" | "signsFrom" | "signsUntil" | "retiresAt", string>;
  certificate: string;
  intermediates: string[];
  roots: string[];
  iv: string;
  sealedKey: string;
}

export const fieldsOf = ({ value }: StoredRecord): RecordFields =>
  JSON.parse(value) as RecordFields;

/** The record with changed fields, in the same compact JSON. */
export function tampered(
  record: StoredRecord,
  change: (fields: RecordFields) => object,
): StoredRecord {
  const fields = fieldsOf(record);
  return { ...record, value: JSON.stringify({ ...fields, ...change(fields) }) };
}
