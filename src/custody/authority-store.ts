import { type RecordKind, recordFolders } from "./record-kinds.ts";

/** The bounds of a store. */
export const AuthorityStore = {
  /** Rotations and operators leave fewer records than this. A store with more was tampered with. */
  maximumRecords: 500,

  /** No record is longer. A store cuts a longer value to this length, and the cut value does not open. */
  maximumRecordOctets: 256 * 1024,
};

/** The name of a record in the store. */
export interface RecordName {
  readonly kind: RecordKind;
  /**
   * The id of the authority or root in lower-case hexadecimal. A taint appends its instants to it, and a
   * denial or a revocation has a digest of its content.
   */
  readonly id: string;
}

/** A record as a store has it: text under a name. Readers must not trust it before they have opened it. */
export interface StoredRecord extends RecordName {
  /** JSON text. */
  readonly value: string;
}

/** Formats and parses the names of records. */
export const RecordName = {
  /** The name of a record as text, such as `authorities/<id>`: a key in KV, a path in a directory. */
  key: ({ kind, id }: RecordName): string => `${recordFolders[kind]}/${id}`,

  /** Parses a key, and returns the name in a list of one. The list is empty for every other key. */
  parse(key: string): RecordName[] {
    const [folder, id, ...rest] = key.split("/");
    if (!id || rest.length > 0) return [];
    return RecordName.kinds
      .filter((kind) => recordFolders[kind] === folder)
      .map((kind) => ({ kind, id }));
  },

  /** Every kind of record. */
  kinds: Object.keys(recordFolders) as readonly RecordKind[],

  /** The length of the longest id: a digest in hexadecimal and the two instants of a taint have less. */
  maximumIdLength: 128,
};

/**
 * The store of the records of authorities.
 *
 * An implementation promises that every reader sees a record within the propagation interval after it was
 * put, and from then on until it is deleted. A reader sees a whole record or none.
 *
 * It promises no transactions, and no order among records. A writer may not read its own writes, and two
 * readers may disagree before the interval is over. The content of a record never changes, only the KEK that
 * seals it; so a stale answer is outdated and never wrong.
 */
export interface AuthorityStore {
  /**
   * Loads every record, in any order. A record may be missing until its propagation interval is over. Rejects
   * when the store cannot be read.
   */
  load(): Promise<readonly StoredRecord[]>;
  /**
   * Writes a record, and replaces one of the same name. The record is durable once this resolves.
   *
   * @param before The value that the writer has read. If the record was deleted or replaced since, nothing is
   *   written. A store without conditional writes, such as KV, may write it even then.
   * @returns Whether the record was written.
   */
  put(record: StoredRecord, before?: string): Promise<boolean>;
  /** Deletes a record, if there is one, for every reader within the propagation interval. */
  delete(name: RecordName): Promise<void>;
  /** Rejects while the store takes no record. Absent if only writing a record can show that. */
  readonly tryWriting?: () => Promise<void>;
}
