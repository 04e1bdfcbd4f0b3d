import { type AuthorityStore } from "../custody/authority-store.ts";
/** What the store needs of a KV namespace: the Worker's binding has it, and so has an operator's terminal. */
export interface KvNamespace {
  list(options: { readonly limit: number }): Promise<{
    readonly keys: readonly {
      readonly name: string;
    }[];
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
export declare function createKvStore(namespace: KvNamespace): AuthorityStore;
