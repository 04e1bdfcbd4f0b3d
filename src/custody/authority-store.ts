/** What a record is about: an authority and its key, a taint, or an additional root. */
export type RecordKind = "authority" | "taint" | "root";

/** Every kind of record. */
export const recordKinds: readonly RecordKind[] = ["authority", "taint", "root"];

/** More records than any rotation and any operator leave behind: a store with more was tampered with. */
export const maximumRecords = 500;

/** The length of the longest id: a digest in hexadecimal and the two instants of a taint have less. */
export const maximumIdLength = 128;

/** The name of a record in the store. */
export interface RecordName {
  readonly kind: RecordKind;
  /** Of the authority or root, lower-case hexadecimal; of a taint, followed by what it says. */
  readonly id: string;
}

/** A record as it rests: text under a name. Nothing about it is trusted before it is opened. */
export interface StoredRecord extends RecordName {
  /** JSON text. */
  readonly value: string;
}

/**
 * Where the records of authorities rest.
 *
 * What is asked of an implementation: a record that was put is seen by every reader within the
 * configured propagation interval, and is then seen until it is deleted; a reader sees a record
 * whole or not at all. What is not asked: that a writer reads its own writes, that two readers agree
 * before that interval is over, transactions, or an order among records. What a record says never
 * changes, only the KEK that seals it, so a stale answer is an older truth and never a wrong one.
 */
export interface AuthorityStore {
  /**
   * Every record, in any order; one that is still on its way may be missing. Rejects when the store
   * cannot be read.
   */
  load(): Promise<readonly StoredRecord[]>;
  /** Durable once it resolves. A record of the same name is replaced. */
  put(record: StoredRecord): Promise<void>;
  /** Gone for every reader within the propagation interval; nothing happens when it is not there. */
  delete(name: RecordName): Promise<void>;
}
