import {
  type AuthorityStore,
  maximumRecordOctets,
  maximumRecords,
  type RecordName,
} from "../authority-store.ts";
import { parseRecordKey, recordKey } from "../record-key.ts";
import type { ObjectSpace } from "./object-space.ts";

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
  const keyOf = (name: RecordName): string => `${prefix}${recordKey(name)}`;
  return {
    async load() {
      const objects = await space.list("recent");
      const records = [...objects].flatMap(([key, { value }]) => {
        const names = key.startsWith(prefix) ? parseRecordKey(key.slice(prefix.length)) : [];
        return names.map((name) => ({ ...name, value }));
      });
      if (records.length > maximumRecords) {
        throw new Error(`more than ${maximumRecords} records in the store`);
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
  if (new TextEncoder().encode(value).length > maximumRecordOctets) {
    throw new Error(`a record has at most ${maximumRecordOctets} octets`);
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
