import { AuthorityStore, RecordName } from "../../custody/authority-store.ts";

/** An object in a service that several machines reach. */
export interface StoredObject {
  readonly value: string;
  /** A text that changes with every write. */
  readonly version: string;
}

/**
 * How fresh a list must be: `now` shows every write that was confirmed before the call; `recent` may be a few seconds
 * old. Both show all writes of this process.
 */
export type Freshness = "now" | "recent";

/**
 * Objects by their keys, in a service that several machines reach, such as the Secrets of a namespace or the objects of
 * a bucket. Keys are lower-case paths, such as `authorities/<id>`.
 *
 * An implementation promises that a write is durable once it is confirmed, that a reader sees a complete object or
 * none, and that of several writes to one version at most one is confirmed. All of it is bounded: the time of a call,
 * the number of objects, and their sizes. The service is not trusted: it may lose or change anything.
 *
 * Calls reject when the service does not answer, or refuses. A write that rejects may have happened.
 */
export interface ObjectSpace {
  readonly list: (freshness: Freshness) => Promise<ReadonlyMap<string, StoredObject>>;
  /** Reads an object as fresh as `now`; `undefined` if there is none. */
  readonly read: (key: string) => Promise<StoredObject | undefined>;
  /**
   * Creates an object, or replaces the one of this version and no other.
   *
   * @returns Whether no other write came before.
   */
  readonly write: (key: string, value: string, version?: string) => Promise<boolean>;
  /** Removes an object of any version, if there is one. */
  readonly remove: (key: string) => Promise<void>;
}

/** The beginning of the keys of issued certificates. It sorts before the key of any record, and lists leave them out. */
export const issuedFolder = "0issued/";

/** The most objects of a list: more than the records of all signers. A longer one is refused. */
export const maximumObjects = 10_000;

/** The most octets of all values of a list. A longer one is refused. */
export const maximumSpaceOctets: number = 64 * 1024 * 1024;

/** How often a write is tried: another writer may come first, but hardly several times in a row. */
const maximumWrites = 5;

/**
 * The store in an {@link ObjectSpace}, with one object for each record. Several machines may share it. Objects with
 * keys of any other form are ignored.
 *
 * `put` creates a record. If there is one of the same name, it replaces exactly the version that it has read, so that
 * no writer undoes a write that it has not seen. With `before`, it replaces the record only if that is its value.
 *
 * @param prefix The beginning of every key, such as `signers/<name>/`.
 */
export function createSharedStore(space: ObjectSpace, prefix = ""): AuthorityStore {
  const keyOf = (name: RecordName): string => `${prefix}${RecordName.key(name)}`;
  return {
    async load() {
      const objects = await space.list("recent");
      const records = [...objects].flatMap(([key, { value }]) => {
        const names = key.startsWith(prefix) ? RecordName.parse(key.slice(prefix.length)) : [];
        return names.map((name) => ({ ...name, value }));
      });
      if (records.length > AuthorityStore.maximumRecords) {
        throw new Error(`more than ${AuthorityStore.maximumRecords} records in the store`);
      }
      return records;
    },
    put: (record, before) =>
      before === undefined
        ? put(space, keyOf(record), record.value)
        : replace(space, keyOf(record), before, record.value),
    delete: (name) => space.remove(keyOf(name)),
  };
}

/** The stores of the named signers. */
export const signerStoreIn =
  (space: ObjectSpace) =>
  (signer: string): AuthorityStore =>
    createSharedStore(space, `signers/${signer}/`);

function requireLength(value: string): void {
  if (new TextEncoder().encode(value).length > AuthorityStore.maximumRecordOctets) {
    throw new Error(`a record has at most ${AuthorityStore.maximumRecordOctets} octets`);
  }
}

/** Replaces an object of value `before`. Another writer who comes first prevails: an operator may have deleted it. */
async function replace(
  space: ObjectSpace,
  key: string,
  before: string,
  value: string,
): Promise<boolean> {
  requireLength(value);
  const found = await space.read(key);
  if (found?.value !== before) return false;
  if (await space.write(key, value, found.version)) return true;
  // The conflict may be with this very write, whose first answer was lost.
  return (await space.read(key))?.value === value;
}

async function put(space: ObjectSpace, key: string, value: string): Promise<true> {
  requireLength(value);
  let version: string | undefined;
  for (let i = 0; i < maximumWrites; i++) {
    if (await space.write(key, value, version)) return true;
    const found = await space.read(key);
    if (found?.value === value) return true;
    version = found?.version;
  }
  throw new Error("other writers replace the record at the same time");
}
