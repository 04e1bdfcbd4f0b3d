import { AuthorityRecord } from "../../../src/custody/authority-record.ts";
import type { StoredRecord } from "../../../src/custody/authority-store.ts";
import { Kek, type KekRing } from "../../../src/custody/kek.ts";
import { type AuthorityKey, NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import type { Schedule } from "../../../src/pki/authority/schedule.ts";
import { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";

export const clusterLocal: TrustDomain = TrustDomain.parse("cluster.local") as TrustDomain;

/** A ring with one new KEK. */
export async function createKekRing(id = "k1"): Promise<KekRing> {
  return [await Kek.import(id, crypto.getRandomValues(new Uint8Array(Kek.octets)))];
}

/** A schedule whose phases begin this many whole seconds after `start`. */
export function scheduleAfter(
  start: Date,
  [publishedFrom, signsFrom, signsUntil, retiresAt]: readonly [number, number, number, number],
): Schedule {
  const later = (seconds: number) => addSeconds(wholeSeconds(start), seconds);
  return {
    publishedFrom: later(publishedFrom),
    signsFrom: later(signsFrom),
    signsUntil: later(signsUntil),
    retiresAt: later(retiresAt),
  };
}

/** The record of a new authority, as the cron stores it. */
export async function sealNewAuthority(
  keks: KekRing,
  schedule: Schedule,
  key: AuthorityKey = "EC-P256",
): Promise<StoredRecord> {
  const created = await NewAuthority.create(clusterLocal, key, schedule);
  return AuthorityRecord.seal(created, { trustDomain: clusterLocal, keks });
}

/** The record with one character of its sealed key changed. */
export function withBrokenSeal({ value, ...name }: StoredRecord): StoredRecord {
  const record = JSON.parse(value) as { sealedKey: string };
  const [first, ...rest] = record.sealedKey;
  const sealedKey = [first === "A" ? "B" : "A", ...rest].join("");
  return { ...name, value: JSON.stringify({ ...record, sealedKey }) };
}
