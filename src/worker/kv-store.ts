import {
  type AuthorityStore,
  maximumRecords,
  type RecordName,
} from "../custody/authority-store.ts";
import { parseRecordKey, recordKey } from "../custody/record-key.ts";

/** As many keys as KV lists at once, the keys of others among them. */
const maximumKeys = 1000;

/** As many values as KV reads at once. */
const valuesAtOnce = 100;

/** What the store needs of a KV namespace: the Worker's binding has it, and so has an operator's terminal. */
export interface KvNamespace {
  list(options: { readonly limit: number }): Promise<{
    readonly keys: readonly { readonly name: string }[];
    readonly list_complete: boolean;
  }>;
  get(keys: string[], type: "text"): Promise<ReadonlyMap<string, string | null>>;
  put(key: string, value: string): Promise<void>;
  delete(key: string): Promise<void>;
}

/**
 * The store on Workers KV: one key a record, such as `authorities/<id>`. KV promises what the port asks
 * for, within its minute: eventually the newest value, never half of one. Keys of other names are not
 * ours.
 */
export function createKvStore(namespace: KvNamespace): AuthorityStore {
  return {
    async load() {
      const { keys, list_complete } = await namespace.list({ limit: maximumKeys });
      const names = keys.flatMap(({ name }) => parseRecordKey(name));
      if (!list_complete || names.length > maximumRecords) {
        throw new Error(`more than ${maximumRecords} records or ${maximumKeys} keys in the store`);
      }
      const values = await readAll(namespace, names.map(recordKey));
      // A key that was listed and is gone was deleted in between, or its value has yet to arrive.
      const present = names.flatMap((name) => {
        const value = values.get(recordKey(name)) ?? null;
        return value === null ? [] : [{ ...name, value }];
      });
      // A store without authorities is something else than one whose values are on their way.
      if (names.some(isAuthority) && !present.some(isAuthority)) {
        throw new Error("no authority has a value yet");
      }
      return present;
    },
    async put(record) {
      await namespace.put(recordKey(record), record.value);
    },
    async delete(name) {
      await namespace.delete(recordKey(name));
    },
  };
}

const isAuthority = ({ kind }: RecordName): boolean => kind === "authority";

async function readAll(
  namespace: KvNamespace,
  keys: readonly string[],
): Promise<ReadonlyMap<string, string | null>> {
  const starts = Array.from(
    { length: Math.ceil(keys.length / valuesAtOnce) },
    (_, i) => i * valuesAtOnce,
  );
  const chunks = await Promise.all(
    starts.map((start) => namespace.get(keys.slice(start, start + valuesAtOnce), "text")),
  );
  return new Map(chunks.flatMap((chunk) => [...chunk]));
}
