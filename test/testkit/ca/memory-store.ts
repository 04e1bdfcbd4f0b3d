import type {
  AuthorityStore,
  RecordName,
  StoredRecord,
} from "../../../src/custody/authority-store.ts";
import type { RecordKind } from "../../../src/custody/record-kinds.ts";

/** A store in memory. A test can make it unreachable, and count its reads. */
export interface MemoryStore extends AuthorityStore {
  /** Values under `<kind>/<id>`. */
  readonly records: Map<string, string>;
  loads: number;
  /** While it is set, `load` rejects with it. */
  outage: Error | undefined;
  /** Has another process make a change within the n-th read from now, behind what that read has found. */
  readonly changeAmid: (n: number, change: () => Promise<unknown>) => void;
  /** Has another process make a change within every second read. */
  everyOther: (() => Promise<unknown>) | undefined;
}

export function createMemoryStore(...records: readonly StoredRecord[]): MemoryStore {
  let amid: { readonly load: number; readonly change: () => Promise<unknown> } | undefined;
  const store: MemoryStore = {
    records: new Map(records.map((record) => [keyOf(record), record.value])),
    loads: 0,
    outage: undefined,
    everyOther: undefined,
    async load() {
      store.loads++;
      if (store.outage) throw store.outage;
      const found = [...store.records].map(([key, value]) => ({ ...nameOf(key), value }));
      if (store.loads === amid?.load) await amid.change();
      else if (store.loads % 2 === 0) await store.everyOther?.();
      return found;
    },
    changeAmid: (n, change) => {
      amid = { load: store.loads + n, change };
    },
    async put(record, before) {
      if (store.outage) throw store.outage;
      if (before !== undefined && store.records.get(keyOf(record)) !== before) return false;
      store.records.set(keyOf(record), record.value);
      return true;
    },
    async delete(name) {
      if (store.outage) throw store.outage;
      store.records.delete(keyOf(name));
    },
  };
  return store;
}

const keyOf = ({ kind, id }: RecordName): string => `${kind}/${id}`;

function nameOf(key: string): RecordName {
  const [kind, id] = key.split("/") as [RecordKind, string];
  return { kind, id };
}
