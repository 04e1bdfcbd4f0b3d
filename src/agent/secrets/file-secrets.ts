import { createPrivateKey } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { OperationLog } from "../../foundation/events.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import { PemFile, parseCertificates } from "../../program/files/pem-file.ts";
import { SystemRoots } from "../../program/system-roots.ts";
import { watchFile } from "./file-watch.ts";
import type { Secret, SecretSource } from "./secret-source.ts";

/** What secrets from files need from the agent. */
export interface FileSecretPorts {
  readonly debounceMilliseconds: number;
  readonly log: OperationLog;
  readonly metrics: { fileSecretFailed(): void };
}

const retryTimeoutMilliseconds = 10_000;

/** The most files that are read at once: each may be large, and a proxy may name any number. */
const maximumReads = 4;

/**
 * Serves secrets from files, which each load reads again. A load that fails is tried again for ten seconds, because
 * writers replace a certificate and its key one after the other.
 */
export function fileSecrets(
  find: (name: string) => FileResource | undefined,
  ports: FileSecretPorts,
): SecretSource {
  const { debounceMilliseconds, log, metrics } = ports;
  const reads = new Semaphore(maximumReads);
  return {
    async load(name) {
      const resource = find(name);
      if (!resource) throw new Error("no such resource");
      return await withRetry(() => reads.run(() => read(resource)), debounceMilliseconds).catch(
        (error: unknown) => {
          metrics.fileSecretFailed();
          OperationLog.logFault(log, "file-secret-unusable", error, { level: "error", name });
          throw error;
        },
      );
    },
    watch(name, onChange) {
      const file = watchedFile(find(name));
      return file === undefined ? () => undefined : watchFile(file, onChange, ports);
    },
  };
}

/** The file to watch for a new secret. For a pair it is the chain: a new key always comes with a new chain. */
function watchedFile(resource: FileResource | undefined): string | undefined {
  if (resource?.kind === "certificate") return resource.chainFile;
  return resource?.kind === "roots" ? resource.file : undefined;
}

async function withRetry<T>(work: () => Promise<T>, firstWait: number): Promise<T> {
  const deadline = performance.now() + retryTimeoutMilliseconds;
  for (let wait = Math.max(1, firstWait); ; wait *= 2) {
    try {
      return await work();
    } catch (error) {
      if (performance.now() + wait > deadline) throw error;
    }
    await sleep(wait);
  }
}

async function read(resource: FileResource): Promise<Secret> {
  if (resource.kind === "certificate") return await readPair(resource);
  if (resource.kind === "system-roots") {
    return { kind: "roots", pem: rootsIn(SystemRoots.pem()) };
  }
  return { kind: "roots", pem: rootsIn(await PemFile.read(resource.file)) };
}

function rootsIn(pem: string): string {
  const roots = parseCertificates(pem);
  if (roots.length === 0)
    throw new Error(`the file ${PemFile.faultIn(pem) ?? "holds no certificate"}`);
  return roots.map((root) => root.toString()).join("");
}

async function readPair(files: { readonly chainFile: string; readonly keyFile: string }) {
  const chainPem = await PemFile.read(files.chainFile);
  const privateKeyPem = await PemFile.read(files.keyFile);
  const [leaf] = parseCertificates(chainPem);
  if (!leaf?.checkPrivateKey(createPrivateKey(privateKeyPem))) {
    throw new Error("the key is not that of the certificate");
  }
  return { kind: "certificate" as const, chainPem, privateKeyPem };
}

/** A secret of files, as its resource name describes it. */
export type FileResource =
  | { readonly kind: "certificate"; readonly chainFile: string; readonly keyFile: string }
  | { readonly kind: "roots"; readonly file: string }
  | { readonly kind: "system-roots" };

/** Parses Istio's names `file-cert:<chain>~<key>`, `file-root:<file>` and `file-root:system`. */
export function parseFileResource(name: string): FileResource | undefined {
  if (name === "file-root:system") return { kind: "system-roots" };
  const [, chainFile, keyFile] = /^file-cert:([^~]+)~([^~]+)$/.exec(name) ?? [];
  if (chainFile && keyFile) return { kind: "certificate", chainFile, keyFile };
  const [, file] = /^file-root:(.+)$/.exec(name) ?? [];
  return file ? { kind: "roots", file } : undefined;
}
