import type { AuthorityStore, RecordName, StoredRecord } from "../../custody/authority-store.ts";
import { recordKey } from "../../custody/record-key.ts";

/** What a session has done to a store, in order. */
export interface Change {
  readonly act: "put" | "delete";
  readonly name: RecordName;
}

/** A store in which one session sees its own writes at once, wherever they have got to by then. */
export interface SessionStore extends AuthorityStore {
  readonly changes: readonly Change[];
}

/**
 * Lays what this session writes over what it read first: KV may answer with what it had before.
 *
 * @param isDry Whether the writes stay in the session.
 */
export function createSessionStore(store: AuthorityStore, isDry: boolean): SessionStore {
  const changes: Change[] = [];
  const written = new Map<string, StoredRecord | undefined>();
  let before: Promise<readonly StoredRecord[]> | undefined;
  return {
    changes,
    async load() {
      before ??= store.load();
      const untouched = (await before).filter((record) => !written.has(recordKey(record)));
      return [...untouched, ...[...written.values()].filter((record) => record !== undefined)];
    },
    async put(record) {
      if (!isDry) await store.put(record);
      written.set(recordKey(record), record);
      changes.push({ act: "put", name: record });
    },
    async delete(name) {
      if (!isDry) await store.delete(name);
      written.set(recordKey(name), undefined);
      changes.push({ act: "delete", name });
    },
  };
}
