import type { AuthorityStore, StoredRecord } from "../../src/custody/authority-store.ts";

/** A store in memory, which a test can make unreachable, and whose reads it can count. */
export interface MemoryStore extends AuthorityStore {
  readonly records: Map<string, string>;
  loads: number;
  /** What `load` rejects with, while it is set. */
  outage: Error | undefined;
}

export function createMemoryStore(...records: readonly StoredRecord[]): MemoryStore {
  const store: MemoryStore = {
    records: new Map(records.map(({ id, value }) => [id, value])),
    loads: 0,
    outage: undefined,
    async load() {
      store.loads++;
      if (store.outage) throw store.outage;
      return [...store.records].map(([id, value]) => ({ id, value }));
    },
    async put({ id, value }) {
      if (store.outage) throw store.outage;
      store.records.set(id, value);
    },
    async delete(id) {
      if (store.outage) throw store.outage;
      store.records.delete(id);
    },
  };
  return store;
}
