import { type RecordKind, type RecordName, recordKinds } from "./authority-store.ts";

const folders: Readonly<Record<RecordKind, string>> = {
  authority: "authorities",
  taint: "taints",
  root: "roots",
  request: "requests",
  denial: "denials",
  revocation: "revocations",
  backup: "backups",
};

/** The name of a record as text, such as `authorities/<id>`: a key in KV, a path in a directory. */
export const recordKey = ({ kind, id }: RecordName): string => `${folders[kind]}/${id}`;

/** The record name of a key, in a list of one. The list is empty for every other key. */
export function parseRecordKey(key: string): RecordName[] {
  const [folder, id, ...rest] = key.split("/");
  if (!id || rest.length > 0) return [];
  return recordKinds.filter((kind) => folders[kind] === folder).map((kind) => ({ kind, id }));
}
