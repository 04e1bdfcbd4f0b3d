import {
  type AuthorityStore,
  type RecordKind,
  type RecordName,
  recordKinds,
  type StoredRecord,
} from "../custody/authority-store.ts";

/** More records than any rotation leaves behind; a store with more was tampered with. */
const maximumRecords = 128;

/**
 * The store on Workers KV: one key a record, such as `authorities/<id>`. KV promises what the port asks for, within
 * its minute: eventually the newest value, never half of one. Keys of other names are not ours.
 */
export function createKvStore(namespace: KVNamespace): AuthorityStore {
  return {
    async load() {
      const { keys, list_complete } = await namespace.list({ limit: maximumRecords });
      if (!list_complete) throw new Error(`more than ${maximumRecords} keys in the store`);
      const names = keys.flatMap(({ name }) => parseKey(name));
      const records = await Promise.all(names.map((name) => load(namespace, name)));
      const present = records.filter((record) => record !== undefined);
      // An empty store is something else than one whose values are on their way.
      if (present.length === 0 && names.length > 0) throw new Error("no record has a value yet");
      return present;
    },
    async put(record) {
      await namespace.put(toKey(record), record.value);
    },
    async delete(name) {
      await namespace.delete(toKey(name));
    },
  };
}

const folders: Readonly<Record<RecordKind, string>> = {
  authority: "authorities",
  taint: "taints",
  root: "roots",
};

const toKey = ({ kind, id }: RecordName): string => `${folders[kind]}/${id}`;

function parseKey(key: string): RecordName[] {
  const [folder, id, ...rest] = key.split("/");
  if (!id || rest.length > 0) return [];
  return recordKinds.filter((kind) => folders[kind] === folder).map((kind) => ({ kind, id }));
}

/** A key that was listed and is gone was deleted in between, or its value has yet to arrive. */
async function load(namespace: KVNamespace, name: RecordName): Promise<StoredRecord | undefined> {
  const value = await namespace.get(toKey(name), "text");
  return value === null ? undefined : { ...name, value };
}
