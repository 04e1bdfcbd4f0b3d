import {
  type AuthorityStore,
  type RecordName,
  recordKey,
  type StoredRecord,
} from "../../custody/authority-store.ts";

/** A store in which a session reads its own writes at once, before KV has propagated them. */
export interface SessionStore extends AuthorityStore {
  /** In the order of the writes. */
  readonly changes: readonly { readonly act: "put" | "delete"; readonly name: RecordName }[];
}

/**
 * Overlays the writes of this session on its first read, because KV may still answer with old values.
 *
 * @param isDry Whether the writes stay in the session.
 */
export function createSessionStore(store: AuthorityStore, isDry: boolean): SessionStore {
  const changes: { act: "put" | "delete"; name: RecordName }[] = [];
  const written = new Map<string, StoredRecord | undefined>();
  let before: Promise<readonly StoredRecord[]> | undefined;
  return {
    changes,
    async load() {
      before ??= store.load();
      const untouched = (await before).filter((record) => !written.has(recordKey(record)));
      return [...untouched, ...[...written.values()].filter((record) => record !== undefined)];
    },
    async put(record, before) {
      if (!isDry && !(await store.put(record, before))) return false;
      written.set(recordKey(record), record);
      changes.push({ act: "put", name: record });
      return true;
    },
    async delete(name) {
      if (!isDry) await store.delete(name);
      written.set(recordKey(name), undefined);
      changes.push({ act: "delete", name });
    },
  };
}
