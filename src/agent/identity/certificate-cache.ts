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
import { type Issuance, parseIssuance } from "./x509-svid.ts";

/** What survives a restart. It is a convenience: nothing of it throws, and all of it may be absent. */
export interface CertificateCache {
  remember(issuance: Issuance): Promise<void>;
  /** What was remembered, if it still passes every check of an answer. */
  recall(spiffeId: SpiffeId): Promise<Issuance | undefined>;
  forget(spiffeId: SpiffeId): Promise<void>;
  rememberRoots(pem: string): Promise<void>;
  recallRoots(): Promise<string | undefined>;
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

/** For an agent that keeps nothing on disk. */
export const noCache: CertificateCache = {
  remember: async () => undefined,
  recall: async () => undefined,
  forget: async () => undefined,
  rememberRoots: async () => undefined,
  recallRoots: async () => undefined,
};

/** A cache in a folder, sealed if there is a key. @throws ConfigurationError for an unusable key. */
export async function openCertificateCache(
  { folder, keyFile }: CacheSettings,
  { clock, log }: { readonly clock: () => Date; readonly log: OperationLog },
): Promise<CertificateCache> {
  const key = keyFile === undefined ? undefined : await readCacheKey(keyFile);
  await removeForgotten(folder, clock());
  const write = async (name: string, text: string): Promise<void> => {
    await writeSealed(fileOf(folder, name), name, text, key).catch((error: unknown) => {
      log.operation({ event: "cache-unwritten", level: "warning", detail: messageOf(error) });
    });
  };
  let lastWrite = Promise.resolve();
  // One after the other: of two writes of one file, the later must be the one that stays.
  const writeInTurn = (name: string, text: string): Promise<void> => {
    lastWrite = lastWrite.then(() => write(name, text));
    return lastWrite;
  };
  const read = async <T>(name: string, parse: (text: string) => T): Promise<T | undefined> => {
    try {
      return parse(await readSealed(fileOf(folder, name), name, key));
    } catch (error) {
      if (isAbsent(error)) return undefined;
      // A parser's own words may quote what it read, and that is a key.
      const detail = error instanceof IssuanceError ? error.message : "not what was written";
      log.operation({ event: "cache-unread", level: "warning", name, detail });
      return undefined;
    }
  };
  return {
    remember: (issuance) => writeInTurn(issuance.svid.spiffeId, toRecord(issuance)),
    recall: (spiffeId) => read(spiffeId, (text) => parseRecord(text, spiffeId, clock())),
    forget: (spiffeId) => rm(fileOf(folder, spiffeId), { force: true }).catch(() => undefined),
    rememberRoots: (pem) => writeInTurn(rootsName, pem),
    recallRoots: () => read(rootsName, (text) => text),
  };
}

/** No certificate lives so long: what nobody has written since then belongs to nobody. */
const longestLifeMilliseconds = 90 * 86_400_000;

/** Removes what workloads that are long gone have left behind. */
async function removeForgotten(folder: string, now: Date): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name);
    const written = await stat(path).then(
      ({ mtime }) => mtime,
      () => now,
    );
    if (now.getTime() - written.getTime() > longestLifeMilliseconds)
      await rm(path, { force: true });
  }
}

function fileOf(folder: string, name: string): string {
  return join(folder, createHash("sha256").update(name).digest("hex").slice(0, 32));
}

const isAbsent = (error: unknown): boolean =>
  error instanceof Error && "code" in error && error.code === "ENOENT";

function toRecord({ svid, elements }: Issuance): string {
  const privateKey = privateKeyPem(svid.privateKey, true);
  return JSON.stringify({ elements, privateKey, obtainedAt: svid.obtainedAt.toISOString() });
}

function parseRecord(text: string, spiffeId: SpiffeId, now: Date): Issuance {
  const { elements, privateKey, obtainedAt } = recordForm.parse(JSON.parse(text));
  const requested = { spiffeId, privateKey: createPrivateKey(privateKey) };
  const issuance = parseIssuance(elements, requested, now);
  // A clock that was wrong then, or is wrong now, must not put the renewal off.
  const isSane = obtainedAt <= now && obtainedAt >= issuance.svid.chain[0].validFromDate;
  return isSane ? { ...issuance, svid: { ...issuance.svid, obtainedAt } } : issuance;
}
