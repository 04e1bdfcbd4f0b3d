import { AuthorityStore, RecordName } from "../../custody/authority-store.ts";

/** An object in a service that several machines reach. */
export interface StoredObject {
  readonly value: string;
  /** Changes with every write. */
  readonly version: string;
}

/**
 * How fresh a list has to be: it shows every write that was confirmed before the call (`now`), or may be a
 * few seconds old (`recent`). Either shows all writes of this process.
 */
export type Freshness = "now" | "recent";

/**
 * Objects by their keys, in a service that several machines reach, such as the Secrets of a namespace or the
 * objects of a bucket. Keys are lower-case paths, such as `authorities/<id>`.
 *
 * An implementation promises that a write is durable once it is confirmed, that a reader sees a whole object or
 * none, and that of several writes to one version at most one is confirmed. All of it is bounded: the time of
 * a call, the number of objects, and their sizes. The service is not trusted: it may lose or change anything.
 *
 * Calls reject when the service does not answer, or refuses. A write that rejects may have happened.
 */
export interface ObjectSpace {
  readonly list: (freshness: Freshness) => Promise<ReadonlyMap<string, StoredObject>>;
  /** As fresh as `now`. */
  readonly read: (key: string) => Promise<StoredObject | undefined>;
  /**
   * Creates an object, or replaces the one of this version and no other.
   *
   * @returns Whether no other write came before.
   */
  readonly write: (key: string, value: string, version?: string) => Promise<boolean>;
  /** Removes an object of whatever version, if there is one. */
  readonly remove: (key: string) => Promise<void>;
}

/** The most objects that a list has: more than the records of all signers. A longer one is refused. */
export const maximumObjects = 10_000;

/** The most octets that the values of a list have together. A longer one is refused. */
export const maximumSpaceOctets: number = 64 * 1024 * 1024;

/** Another writer may come first, but hardly several times in a row. */
const maximumWrites = 5;

/**
 * The store in an {@link ObjectSpace}, with one object for each record. Several machines may share it. Objects
 * with keys of any other form are ignored.
 *
 * `put` creates a record. Where there is one of the same name, it replaces the very version that it has read,
 * so that of two writers at once neither undoes a write that it has not seen. With the value before, it replaces
 * that one or none.
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

/** Another writer who comes first has the last word: an operator may have deleted the record. */
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
