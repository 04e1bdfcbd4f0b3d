import { createPrivateKey, type X509Certificate } from "node:crypto";
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf } from "../../foundation/errors.ts";
import { PemFile, parseCertificates } from "../../program/files/pem-file.ts";
import { Subscribers } from "../subscribers.ts";
import type { FileResource, FileSecretPorts } from "./file-secrets.ts";
import { watchFile } from "./file-watch.ts";
import { defaultResource, rootResource } from "./secret-source.ts";

/** The folders of a platform, by precedence, as in pilot-agent. */
const workloadCredentials = "./var/run/secrets/workload-spiffe-credentials";
const certificates = "./etc/certs";

/** Where files may be mounted, and whether they have to be. */
interface MountedFilesOptions extends FileSecretPorts {
  /** The folder that the agent itself writes to. Files in it are not mounted. */
  readonly outputFolder: string | undefined;
  /** Whether all certificates come from files (`FILE_MOUNTED_CERTS`), even if the files come late. */
  readonly isRequired: boolean;
  /** The base of the relative paths: the working directory of the agent. */
  readonly base?: string;
}

/**
 * Files that a platform mounts, which replace the agent's own certificate and roots: all workload credentials, or any
 * of the files of `./etc/certs`. They are used as soon as they exist, even if that is after the agent's start.
 */
export class MountedFiles {
  readonly changes: Subscribers = new Subscribers();
  readonly #options: MountedFilesOptions;
  readonly #unwatch: readonly (() => void)[];

  constructor(options: MountedFilesOptions) {
    this.#options = options;
    const watched = [workloadCredentials, certificates]
      .filter((folder) => !this.#isOutput(folder))
      .map((folder) => this.#filesOf(folder));
    const notify = (): void => this.changes.notify();
    this.#unwatch = watched.flatMap(({ chainFile, keyFile, rootFile }) => [
      watchFile(chainFile, notify, options),
      watchFile(rootFile, notify, options),
      // A new key comes before or after its chain, so its change is notified only once the two fit.
      watchFile(keyFile, () => faultOfPair({ chainFile, keyFile }) ?? notify(), options),
    ]);
  }

  close(): void {
    for (const unwatch of this.#unwatch) unwatch();
  }

  /** The files that replace a resource now; `undefined` if there are none and none are required. */
  find(name: string): FileResource | undefined {
    const { chainFile, keyFile, rootFile } = this.#current();
    if (this.#isOutput(resolve(chainFile, ".."))) return undefined;
    if (name === defaultResource && (this.#options.isRequired || areFilled(chainFile, keyFile))) {
      return { kind: "certificate", chainFile, keyFile };
    }
    if (name === rootResource && (this.#options.isRequired || areFilled(rootFile))) {
      return { kind: "roots", file: rootFile };
    }
    return undefined;
  }

  /** The certificate in the mounted files; `undefined` if there is none or its key does not fit. */
  get leaf(): X509Certificate | undefined {
    const pair = this.find(defaultResource);
    if (pair?.kind !== "certificate" || faultOfPair(pair) !== undefined) return undefined;
    return leafOf(pair.chainFile);
  }

  /** Why a resource that comes from files cannot be served: one sentence for each. */
  faults(now: Date): readonly string[] {
    const [pair, roots] = [this.find(defaultResource), this.find(rootResource)];
    return [
      pair?.kind === "certificate" ? (faultOfPair(pair) ?? expiry(pair.chainFile, now)) : undefined,
      roots?.kind === "roots" ? faultOfRoots(roots.file) : undefined,
    ].filter((fault) => fault !== undefined);
  }

  #current() {
    const credentials = this.#filesOf(workloadCredentials);
    return areFilled(...Object.values(credentials)) ? credentials : this.#filesOf(certificates);
  }

  #filesOf(folder: string) {
    const path = resolve(this.#options.base ?? ".", folder);
    return {
      chainFile: `${path}/cert-chain.pem`,
      keyFile: `${path}/key.pem`,
      rootFile: `${path}/root-cert.pem`,
    };
  }

  #isOutput(folder: string): boolean {
    const { outputFolder, base = "." } = this.#options;
    return outputFolder !== undefined && resolve(outputFolder) === resolve(base, folder);
  }
}

interface PairFiles {
  readonly chainFile: string;
  readonly keyFile: string;
}

/** Why a certificate and its key are unusable. Synchronous: the files are small, and read for a probe or a change. */
function faultOfPair({ chainFile, keyFile }: PairFiles): string | undefined {
  try {
    const leaf = leafOf(chainFile);
    const key = createPrivateKey(PemFile.readNow(keyFile));
    return leaf?.checkPrivateKey(key) ? undefined : `${keyFile} is not the key of ${chainFile}`;
  } catch (error) {
    return `${chainFile} and ${keyFile}: ${codeOf(error)}`;
  }
}

function faultOfRoots(file: string): string | undefined {
  try {
    const pem = PemFile.readNow(file);
    if (parseCertificates(pem).length > 0) return undefined;
    return `${file} ${PemFile.faultIn(pem) ?? "holds no certificate"}`;
  } catch (error) {
    return `${file}: ${codeOf(error)}`;
  }
}

function expiry(chainFile: string, now: Date): string | undefined {
  const leaf = leafOf(chainFile);
  if (leaf && now < leaf.validFromDate) return `${chainFile} is not valid yet`;
  return leaf && now >= leaf.validToDate ? `${chainFile} expired` : undefined;
}

function leafOf(chainFile: string): X509Certificate | undefined {
  return parseCertificates(PemFile.readNow(chainFile))[0];
}

/** The code of a system's error, and never a parser's message, which may quote a key. */
function codeOf(error: unknown): string {
  const isSystemError = error instanceof Error && "syscall" in error;
  return isSystemError ? messageOf(error) : "cannot be read";
}

/** Whether every file exists and is not empty. */
function areFilled(...files: readonly string[]): boolean {
  return files.every((file) => sizeOf(file) > 0);
}

function sizeOf(file: string): number {
  try {
    return statSync(file).size;
  } catch {
    // A file that is missing or inaccessible does not count as mounted.
    return 0;
  }
}
