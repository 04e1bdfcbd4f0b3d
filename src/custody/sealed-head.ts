import { RecordError } from "./authority-record.ts";
import type { StoredRecord } from "./authority-store.ts";
import type { Kek, KekRing } from "./kek.ts";

/** The fields about the seal that every kind of record has. */
export interface SealedHead {
  readonly id: string;
  readonly trustDomain: string;
  readonly kek: string;
}

/**
 * The KEK that sealed a record, found before the record opens. The record must rest under its own id and
 * be of this trust domain.
 *
 * @throws RecordError `id`, `trust-domain` or `kek`.
 */
export function sealingKek(
  head: SealedHead,
  stored: Pick<StoredRecord, "id">,
  trustDomain: string,
  keks: KekRing,
): Kek {
  if (head.id !== stored.id) throw new RecordError("id", "stored under another id");
  if (head.trustDomain !== trustDomain) {
    throw new RecordError("trust-domain", "sealed for another trust domain");
  }
  const kek = keks.find(({ id }) => id === head.kek);
  if (!kek) throw new RecordError("kek", "sealed with a KEK that is not configured");
  return kek;
}
