import type { AuthorityStore, StoredRecord } from "../custody/authority-store.ts";

const prefix = "authorities/";

/** More authorities than any rotation leaves behind; a store with more was tampered with. */
const maximumRecords = 64;

/**
 * The store on Workers KV: one key an authority. KV promises what the port asks for, within its
 * minute: eventually the newest value, never half of one.
 */
export function createKvStore(namespace: KVNamespace): AuthorityStore {
  return {
    async load() {
      const { keys, list_complete } = await namespace.list({ prefix, limit: maximumRecords });
      if (!list_complete) throw new Error(`more than ${maximumRecords} records in the store`);
      const records = await Promise.all(keys.map(({ name }) => load(namespace, name)));
      const present = records.filter((record) => record !== undefined);
      // An empty store is something else than one whose values are on their way.
      if (present.length === 0 && keys.length > 0) throw new Error("no record has a value yet");
      return present;
    },
    async put({ id, value }) {
      await namespace.put(`${prefix}${id}`, value);
    },
    async delete(id) {
      await namespace.delete(`${prefix}${id}`);
    },
  };
}

/** A key that was listed and is gone was deleted in between, or its value has yet to arrive. */
async function load(namespace: KVNamespace, name: string): Promise<StoredRecord | undefined> {
  const value = await namespace.get(name, "text");
  return value === null ? undefined : { id: name.slice(prefix.length), value };
}
