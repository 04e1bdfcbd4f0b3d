import { readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { IssuedCertificates } from "../../ca/issuance/idempotency.ts";
import { fileObjects } from "./log-storage.ts";

/** How many certificates are kept for one issuer of tokens: its signers have far fewer requests under way. */
const maximumKept = 1000;

/** The first write of a process removes the oldest, and each after as many. */
const pruneEvery = 100;

/** Keeps issued certificates in a folder of the store, one file each; of each issuer about the newest `maximum`. */
export function issuedCertificatesIn(
  storeDirectory: string,
  maximum = maximumKept,
): IssuedCertificates {
  const { read, create } = fileObjects(storeDirectory);
  const pathOf = (name: string): string => `issued/${name}`;
  const writes = new Map<string, number>();
  return {
    read: (name) => read(pathOf(name)),
    create: async (name, der) => {
      const kept = await create(pathOf(name), der);
      const folder = dirname(join(storeDirectory, pathOf(name)));
      const count = writes.get(folder) ?? 0;
      writes.set(folder, count + 1);
      if (count % pruneEvery === 0) await prune(folder, maximum);
      return kept;
    },
    remove: (name) => rm(join(storeDirectory, pathOf(name)), { force: true }),
  };
}

async function prune(folder: string, maximum: number): Promise<void> {
  const files = (await readdir(folder)).map((name) => join(folder, name));
  if (files.length <= maximum) return;
  // Another process may have removed one.
  const ages = files.map(async (file) => (await stat(file).catch(() => undefined))?.mtimeMs ?? 0);
  const found = (await Promise.all(ages)).map((at, i) => ({ at, file: files[i] ?? "" }));
  const oldest = found.toSorted((a, b) => b.at - a.at).slice(maximum);
  for (const { file } of oldest) await rm(file, { force: true });
}
