import { AuthorityStore, RecordName } from "../custody/authority-store.ts";

/** KV lists at most this many keys at once, foreign keys included. */
const maximumKeys = 1000;

/** KV reads at most this many values at once. */
const valuesAtOnce = 100;

/** The part of a KV namespace that the store needs. The Worker's binding and the CLI's client implement it. */
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
 * The store on Workers KV, with one key for each record, such as `authorities/<id>`. KV keeps the promises of
 * {@link AuthorityStore}: a reader gets the newest value within about a minute, and never a part of one. `put` replaces
 * any value. `load` ignores keys of any other form, but throws if the namespace has more than 1000 keys in all.
 *
 * @param prefix The beginning of every key, such as `signers/<name>/`.
 */
export function createKvStore(namespace: KvNamespace, prefix = ""): AuthorityStore {
  const keyOf = (name: RecordName): string => `${prefix}${RecordName.key(name)}`;
  return {
    async load() {
      const { keys, list_complete } = await namespace.list({ limit: maximumKeys });
      const ours = keys.filter(({ name }) => name.startsWith(prefix));
      const names = ours.flatMap(({ name }) => RecordName.parse(name.slice(prefix.length)));
      if (!list_complete || names.length > AuthorityStore.maximumRecords) {
        throw new Error(
          `more than ${AuthorityStore.maximumRecords} records or ${maximumKeys} keys in the store`,
        );
      }
      const values = await readAll(namespace, names.map(keyOf));
      // A listed key without a value was deleted meanwhile, or its value has not yet arrived here.
      const present = names.flatMap((name) => {
        const value = values.get(keyOf(name)) ?? null;
        return value === null ? [] : [{ ...name, value }];
      });
      // Throws, because a store whose values have not yet arrived must not be taken for one without authorities.
      if (names.some(isAuthority) && !present.some(isAuthority)) {
        throw new Error("no authority has a value yet");
      }
      return present;
    },
    async put(record) {
      await namespace.put(keyOf(record), record.value);
      return true;
    },
    async delete(name) {
      await namespace.delete(keyOf(name));
    },
  };
}

const isAuthority = ({ kind }: RecordName): boolean => kind === "authority";

async function readAll(
  namespace: KvNamespace,
  keys: readonly string[],
): Promise<ReadonlyMap<string, string | null>> {
  const reads: ReturnType<KvNamespace["get"]>[] = [];
  for (let i = 0; i < keys.length; i += valuesAtOnce)
    reads.push(namespace.get(keys.slice(i, i + valuesAtOnce), "text"));
  return new Map((await Promise.all(reads)).flatMap((chunk) => [...chunk]));
}

/** The stores of this CA and of its named signers in one KV namespace, the latter below `signers/`. */
export const kvStores = (namespace: KvNamespace) => ({
  store: createKvStore(namespace),
  signerStore: (signer: string) => createKvStore(namespace, `signers/${signer}/`),
});
