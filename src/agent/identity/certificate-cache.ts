import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createPrivateKey,
  randomBytes,
} from "node:crypto";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod/mini";
import { ConfigurationError } from "../../foundation/errors.ts";
import { OperationLog } from "../../foundation/events.ts";
import { JsonBounds, parseJson } from "../../foundation/json.ts";
import { concatBytes } from "../../foundation/octets.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import type { Crl } from "../../pki/x509/crl/crl.ts";
import { crlsPem, parseCrls } from "../../program/bundle/crl-document.ts";
import { LatestWrites } from "../../program/coalesced-work.ts";
import { AtomicFile } from "../../program/files/atomic-file.ts";
import { SmallFile, unlessMissing } from "../../program/files/small-file.ts";
import type { CertificatePurpose } from "../configuration/ca-settings.ts";
import type { CacheSettings } from "../configuration.ts";
import {
  type CaAnswer,
  IssuanceError,
  parseAnswer,
  privateKeyPem,
  type X509Svid,
} from "./x509-svid.ts";

const recordSchema = z.strictObject({
  elements: z.array(z.string()).check(z.minLength(2)),
  privateKey: z.string(),
  obtainedAt: z.pipe(
    z.iso.datetime(),
    z.transform((text) => new Date(text)),
  ),
});

const rootsName = "roots";
const crlsName = "crls";

interface CachePorts {
  readonly clock: () => Date;
  readonly log: OperationLog;
}

interface OpenedCache extends CachePorts {
  readonly folder: string;
  /** The key that seals the files; if absent, they are stored unsealed. */
  readonly key: Uint8Array | undefined;
  readonly purpose: CertificatePurpose;
}

/** Certificates, roots and CRLs that survive a restart. No method rejects, and every entry may be missing. */
export class CertificateCache {
  readonly #opened: OpenedCache;
  readonly #writes = new LatestWrites<string>((name, text) => this.#write(name, text));

  private constructor(opened: OpenedCache) {
    this.#opened = opened;
  }

  /** Opens a cache in a folder, sealed if there is a key. @throws ConfigurationError for an unusable key. */
  static async open(
    { folder, keyFile }: CacheSettings,
    ports: CachePorts,
    purpose: CertificatePurpose = "identity",
  ): Promise<CertificateCache> {
    const key = keyFile === undefined ? undefined : await readCacheKey(keyFile);
    await removeStale(folder, ports.clock());
    return new CertificateCache({ ...ports, folder, key, purpose });
  }

  store(svid: X509Svid): Promise<void> {
    return this.#writes.write(svid.spiffeId, toRecord(svid));
  }

  /** The stored certificate; `undefined` if it is missing, or fails a check of a CA's answer now. */
  load(spiffeId: SpiffeId): Promise<CaAnswer | undefined> {
    const { purpose, clock } = this.#opened;
    return this.#read(spiffeId, (text) => parseRecord(text, { spiffeId, purpose }, clock()));
  }

  remove(spiffeId: SpiffeId): Promise<void> {
    return rm(fileOf(this.#opened.folder, spiffeId), { force: true }).catch(() => undefined);
  }

  storeRoots(pem: string): Promise<void> {
    return this.#writes.write(rootsName, pem);
  }

  loadRoots(): Promise<string | undefined> {
    return this.#read(rootsName, (text) => text);
  }

  storeCrls(crls: readonly Crl[]): Promise<void> {
    return this.#writes.write(crlsName, crlsPem(crls));
  }

  loadCrls(): Promise<readonly Crl[] | undefined> {
    return this.#read(crlsName, (text) => (text === "" ? [] : parseCrls(text)));
  }

  /** Resolves once all writes have ended; `undefined` if none is under way. */
  get stored(): Promise<void> | undefined {
    return this.#writes.underWay;
  }

  async #write(name: string, text: string): Promise<void> {
    const { folder, key, log } = this.#opened;
    await writeSealed(fileOf(folder, name), name, text, key).catch((error: unknown) =>
      OperationLog.logFault(log, "cache-unwritten", error),
    );
  }

  async #read<T>(name: string, parse: (text: string) => T): Promise<T | undefined> {
    const { folder, key, log } = this.#opened;
    try {
      const text = await readSealed(fileOf(folder, name), name, key);
      return text === undefined ? undefined : parse(text);
    } catch (error) {
      // A parser's message may quote its input, which holds a private key.
      const detail = error instanceof IssuanceError ? error.message : "not what was written";
      log.operation({ event: "cache-unread", level: "warning", name, detail });
      return undefined;
    }
  }
}

/** No certificate is valid for longer, so an older file is useless. */
const longestLifeMilliseconds = 90 * 86_400_000;

/** The name of a file of this cache, or of one that a process left unfinished. */
const ownName = /^(?:[0-9a-f]{32}|\.[0-9a-f]{32}\.[0-9a-f-]{36})$/;

/** Removes files of this cache that are too old to be useful. Files with other names stay. */
async function removeStale(folder: string, now: Date): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((each) => ownName.test(each))) {
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

function toRecord(svid: X509Svid): string {
  const privateKey = privateKeyPem(svid.privateKey, true);
  const obtainedAt = svid.obtainedAt.toISOString();
  return JSON.stringify({ elements: svid.certChain, privateKey, obtainedAt });
}

function parseRecord(
  text: string,
  { spiffeId, purpose }: { readonly spiffeId: SpiffeId; readonly purpose: CertificatePurpose },
  now: Date,
): CaAnswer {
  const { elements, privateKey, obtainedAt } = recordSchema.parse(
    parseJson(text, JsonBounds.of(maximumOctets)),
  );
  const requested = { spiffeId, privateKey: createPrivateKey(privateKey) };
  const answer = parseAnswer(elements, requested, now, purpose);
  // Ignores the stored instant if the clock was wrong, then or now, so that the renewal is not delayed.
  const isSane = obtainedAt <= now && obtainedAt >= answer.svid.chain[0].validFromDate;
  return isSane ? { ...answer, svid: { ...answer.svid, obtainedAt } } : answer;
}

/** More than a certificate, its chain, its key, roots and CRLs usually have. */
const maximumOctets = 16 * 1024 * 1024;

const algorithm = "aes-256-gcm";
const keyOctets = 32;
const nonceOctets = 12;
const tagOctets = 16;

/** Reads the key of a cache: a file with 32 octets in base64. @throws ConfigurationError */
async function readCacheKey(file: string): Promise<Uint8Array> {
  const text = await SmallFile.read(file, maximumOctets).catch(() => "");
  const key = Base64.parse(text.trim());
  if (key?.length === keyOctets) return key;
  throw new ConfigurationError([`RAMPART_CACHE_KEY_FILE: ${file} must hold 32 octets in base64`]);
}

/**
 * Replaces a file, and seals it with AES-256-GCM if there is a key. The file's name is associated data, so that no
 * file can take the place of another.
 */
async function writeSealed(
  path: string,
  name: string,
  text: string,
  key: Uint8Array | undefined,
): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await AtomicFile.replace(path, key ? seal(text, name, key) : text, { mode: 0o600 });
}

/** Reads a file; `undefined` if it is missing. @throws Error for one that was not sealed under this name and key. */
async function readSealed(
  path: string,
  name: string,
  key: Uint8Array | undefined,
): Promise<string | undefined> {
  const content = await unlessMissing(SmallFile.readOctets(path, maximumOctets));
  if (!content) return undefined;
  return key ? open(content, name, key) : new TextDecoder().decode(content);
}

function seal(text: string, name: string, key: Uint8Array): Uint8Array {
  const nonce = randomBytes(nonceOctets);
  const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(name));
  return concatBytes(nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag());
}

function open(sealed: Uint8Array, name: string, key: Uint8Array): string {
  const nonce = sealed.subarray(0, nonceOctets);
  const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagOctets })
    .setAAD(Buffer.from(name))
    .setAuthTag(sealed.subarray(-tagOctets));
  const text = decipher.update(sealed.subarray(nonceOctets, -tagOctets));
  return Buffer.concat([text, decipher.final()]).toString();
}
