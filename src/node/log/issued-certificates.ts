import { readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { IssuedCertificates } from "../../ca/issuance/idempotency.ts";
import { Bytes } from "../../pki/encoding/bytes.ts";
import { createPruning } from "../stores/issued-objects.ts";
import { fileObjects } from "./log-storage.ts";

/**
 * Keeps issued certificates in a folder of the store, one file each; of each issuer those of the last hour, and of them
 * about the newest `maximum`.
 */
export function issuedCertificatesIn(storeDirectory: string, maximum?: number): IssuedCertificates {
  const { read, create } = fileObjects(storeDirectory);
  const pathOf = (name: string): string => `issued/${name}`;
  const remove = (file: string): Promise<void> => rm(file, { force: true });
  const prune = createPruning({ written, remove }, maximum);
  return {
    read: (name) => read(pathOf(name)),
    create: async (name, der, stale) => {
      const path = pathOf(name);
      const file = join(storeDirectory, path);
      const found = stale && (await read(path));
      if (found && Bytes.equal(found, stale)) await remove(file);
      const kept = await create(path, der);
      await prune(dirname(file));
      return kept;
    },
  };
}

async function written(folder: string): Promise<ReadonlyMap<string, number>> {
  const files = (await readdir(folder)).map((name) => join(folder, name));
  // Another process may have removed a file meanwhile.
  const ages = files.map(async (file) => (await stat(file).catch(() => undefined))?.mtimeMs ?? 0);
  return new Map((await Promise.all(ages)).map((at, i) => [files[i] ?? "", at]));
}
