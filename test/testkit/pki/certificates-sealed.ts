import type { StoredRecord } from "../../../src/custody/authority-store.ts";
import { importKek, type Kek, kekOctets } from "../../../src/custody/kek.ts";
import { sealAuthority } from "../../../src/custody/seal.ts";
import {
  type AuthorityKey,
  createAuthority,
} from "../../../src/pki/authority/self-signed-authority.ts";
import type { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { clusterLocal, tenDays } from "./certificates.ts";

/** A KEK of octets that nobody else has, unless they are given. */
export const createKek = (
  id: string,
  octets: Uint8Array<ArrayBuffer> = crypto.getRandomValues(new Uint8Array(kekOctets)),
): Promise<Kek> => importKek(id, octets);

/** A new authority, sealed. */
export async function createRecord(
  kek: Kek,
  key: AuthorityKey = "EC-P256",
  domain: TrustDomain = clusterLocal,
): Promise<StoredRecord> {
  return sealAuthority(await createAuthority(domain, key, tenDays), domain, [kek]);
}

/** The record's fields, for a test to change. */
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

/** The record with its fields changed, and its text as compact as before. */
export function tampered(
  record: StoredRecord,
  change: (fields: RecordFields) => object,
): StoredRecord {
  const fields = fieldsOf(record);
  return { ...record, value: JSON.stringify({ ...fields, ...change(fields) }) };
}
