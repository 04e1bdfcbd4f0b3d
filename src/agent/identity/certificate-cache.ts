import { createHash, createPrivateKey } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod/mini";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import type { CacheSettings } from "../configuration/configuration.ts";
import { IssuanceError } from "../issuance/issuance-error.ts";
import { readCacheKey, readSealed, writeSealed } from "./sealed-file.ts";
import { privateKeyPem } from "./subject-key.ts";
import { type CertificatePurpose, type Issuance, parseIssuance } from "./x509-svid.ts";

/** Certificates and roots that survive a restart. No method rejects, and every entry may be missing. */
export interface CertificateCache {
  store(issuance: Issuance): Promise<void>;
  /** The stored certificate, if it still passes every check of a CA's answer. */
  load(spiffeId: SpiffeId): Promise<Issuance | undefined>;
  remove(spiffeId: SpiffeId): Promise<void>;
  storeRoots(pem: string): Promise<void>;
  loadRoots(): Promise<string | undefined>;
}

const recordForm = z.strictObject({
  elements: z.array(z.string()).check(z.minLength(2)),
  privateKey: z.string(),
  obtainedAt: z.pipe(
    z.iso.datetime(),
    z.transform((text) => new Date(text)),
  ),
});

const rootsName = "roots";

/** The cache of an agent that keeps nothing on disk. */
export const noCache: CertificateCache = {
  store: async () => undefined,
  load: async () => undefined,
  remove: async () => undefined,
  storeRoots: async () => undefined,
  loadRoots: async () => undefined,
};

/** Opens a cache in a folder, sealed if there is a key. @throws ConfigurationError for an unusable key. */
export async function openCertificateCache(
  { folder, keyFile }: CacheSettings,
  { clock, log }: { readonly clock: () => Date; readonly log: OperationLog },
  purpose: CertificatePurpose = "identity",
): Promise<CertificateCache> {
  const key = keyFile === undefined ? undefined : await readCacheKey(keyFile);
  await removeStale(folder, clock());
  const write = async (name: string, text: string): Promise<void> => {
    await writeSealed(fileOf(folder, name), name, text, key).catch((error: unknown) => {
      log.operation({ event: "cache-unwritten", level: "warning", detail: messageOf(error) });
    });
  };
  let lastWrite = Promise.resolve();
  // Writes run one after the other, because the later of two writes to one file must win.
  const writeInTurn = (name: string, text: string): Promise<void> => {
    lastWrite = lastWrite.then(() => write(name, text));
    return lastWrite;
  };
  const read = async <T>(name: string, parse: (text: string) => T): Promise<T | undefined> => {
    try {
      const text = await readSealed(fileOf(folder, name), name, key);
      return text === undefined ? undefined : parse(text);
    } catch (error) {
      // A parser's message may quote its input, which holds a private key.
      const detail = error instanceof IssuanceError ? error.message : "not what was written";
      log.operation({ event: "cache-unread", level: "warning", name, detail });
      return undefined;
    }
  };
  return {
    store: (issuance) => writeInTurn(issuance.svid.spiffeId, toRecord(issuance)),
    load: (spiffeId) => read(spiffeId, (text) => parseRecord(text, { spiffeId, purpose }, clock())),
    remove: (spiffeId) => rm(fileOf(folder, spiffeId), { force: true }).catch(() => undefined),
    storeRoots: (pem) => writeInTurn(rootsName, pem),
    loadRoots: () => read(rootsName, (text) => text),
  };
}

/** No certificate lives so long, so no workload needs a file that is older. */
const longestLifeMilliseconds = 90 * 86_400_000;

/** Removes the files of workloads that are long gone. */
async function removeStale(folder: string, now: Date): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name);
    const writtenAt = await stat(path).then(
      ({ mtime }) => mtime,
      () => now,
    );
    if (now.getTime() - writtenAt.getTime() > longestLifeMilliseconds)
      await rm(path, { force: true });
  }
}

function fileOf(folder: string, name: string): string {
  return join(folder, createHash("sha256").update(name).digest("hex").slice(0, 32));
}

function toRecord({ svid, elements }: Issuance): string {
  const privateKey = privateKeyPem(svid.privateKey, true);
  return JSON.stringify({ elements, privateKey, obtainedAt: svid.obtainedAt.toISOString() });
}

function parseRecord(
  text: string,
  { spiffeId, purpose }: { readonly spiffeId: SpiffeId; readonly purpose: CertificatePurpose },
  now: Date,
): Issuance {
  const { elements, privateKey, obtainedAt } = recordForm.parse(JSON.parse(text));
  const requested = { spiffeId, privateKey: createPrivateKey(privateKey) };
  const issuance = parseIssuance(elements, requested, now, purpose);
  // A wrong clock, then or now, must not delay the renewal.
  const isSane = obtainedAt <= now && obtainedAt >= issuance.svid.chain[0].validFromDate;
  return isSane ? { ...issuance, svid: { ...issuance.svid, obtainedAt } } : issuance;
}
