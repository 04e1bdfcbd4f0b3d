import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  chmod,
  chown,
  lstat,
  mkdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
} from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { replaceFile } from "../../program/files/atomic-file.ts";
import type { CertificatePurpose } from "../configuration/ca-settings.ts";
import type { OutputSettings } from "../configuration/configuration.ts";
import type { RefreshingIdentity } from "../identity/refreshing-identity.ts";
import { chainPem, privateKeyPem } from "../identity/x509-svid.ts";
import type { Revocation } from "../trust/revocation.ts";
import type { TrustRoots } from "../trust/trust-roots.ts";

const retryMilliseconds = 5_000;

/** The dependencies of a {@link CertificateOutput}. */
export interface CertificateOutputOptions {
  readonly settings: OutputSettings;
  readonly identity: RefreshingIdentity;
  readonly trust: TrustRoots;
  readonly revocation: Pick<Revocation, "isPublished" | "pem" | "changes">;
  readonly isPkcs8: boolean;
  readonly purpose: CertificatePurpose;
  readonly log: OperationLog;
}

/**
 * Keeps `key.pem`, `cert-chain.pem`, `root-cert.pem` and, where the CA publishes CRLs, `ca-crl.pem` in a
 * folder up to date, for programs that read files. It repeats a failed write until one succeeds.
 */
export class CertificateOutput {
  readonly #options: CertificateOutputOptions;
  readonly #unsubscribe: readonly (() => void)[];
  #isDirty = false;
  #writing: Promise<void> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #command: ChildProcess | undefined;

  constructor(options: CertificateOutputOptions) {
    this.#options = options;
    const { identity, trust, revocation } = options;
    this.#unsubscribe = [identity.changes, trust.changes, revocation.changes].map((changes) =>
      changes.add(() => this.#write()),
    );
    this.#write();
  }

  async close(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    clearTimeout(this.#retry);
    this.#command?.kill();
    await this.#writing;
  }

  /** Starts a write, or has the current one followed by another. */
  #write(): void {
    this.#isDirty = true;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
      if (this.#isDirty) this.#write();
    });
  }

  async #writeAll(): Promise<void> {
    const { settings, log } = this.#options;
    while (this.#isDirty) {
      this.#isDirty = false;
      try {
        const files = this.#files();
        if (!files || !(await writeOutput(settings, files))) continue;
        log.operation({ event: "files-written", level: "info", folder: settings.folder });
        await this.#runCommand();
      } catch (error) {
        log.operation({ event: "files-unwritten", level: "error", detail: messageOf(error) });
        clearTimeout(this.#retry);
        this.#retry = setTimeout(() => this.#write(), retryMilliseconds);
      }
    }
  }

  #files(): Readonly<Record<string, string>> | undefined {
    const { identity, trust, revocation, isPkcs8, purpose } = this.#options;
    const { svid } = identity;
    return (
      svid && {
        "key.pem": privateKeyPem(svid.privateKey, isPkcs8),
        // As in Istio, a workload's chain includes the roots: some programs look for them there.
        "cert-chain.pem": purpose === "serving" ? chainPem(svid) : joinPem(svid.certChain),
        "root-cert.pem": trust.pem,
        // As in Istio, an empty file revokes nothing.
        ...(revocation.isPublished && purpose === "identity" && { "ca-crl.pem": revocation.pem }),
      }
    );
  }

  async #runCommand(): Promise<void> {
    const { settings, log } = this.#options;
    if (settings.onChange === undefined) return;
    const command = spawn("sh", ["-c", settings.onChange], {
      stdio: ["ignore", "inherit", "inherit"],
    });
    this.#command = command;
    const result = await new Promise<string>((resolve) => {
      command.on("error", (error) => resolve(messageOf(error)));
      command.on("exit", (code, signal) =>
        resolve(code === 0 ? "" : `ended with ${code ?? signal}`),
      );
    });
    if (result) log.operation({ event: "on-change-failed", level: "error", detail: result });
    else log.operation({ event: "on-change-run", level: "info" });
  }
}

/** Joins PEM texts, and adds a newline between two only where one is missing. */
export function joinPem(texts: readonly string[]): string {
  return texts.reduce((joined, text) => {
    const separator = joined === "" || joined.endsWith("\n") ? "" : "\n";
    return `${joined}${separator}${text}`;
  }, "");
}

/** The files of an identity by name. */
export type OutputFiles = Readonly<Record<string, string>>;

const folderMode = 0o755;
const currentLink = "..data";

/**
 * Writes the files that have changed: each file atomically, or all files at once.
 *
 * @returns Whether any file has changed.
 */
export async function writeOutput(settings: OutputSettings, files: OutputFiles): Promise<boolean> {
  const { folder, isAtomic } = settings;
  await mkdir(folder, { recursive: true, mode: folderMode });
  const changed: string[] = [];
  for (const [name, content] of Object.entries(files)) {
    if ((await readIfPresent(join(folder, name))) !== content) changed.push(name);
  }
  if (changed.length === 0) return false;
  if (isAtomic) await swapFolder(settings, files);
  else for (const name of changed) await replace(join(folder, name), files[name] ?? "", settings);
  return true;
}

function replace(path: string, content: string, { mode, owner }: OutputSettings): Promise<void> {
  return replaceFile(path, content, {
    mode,
    give: owner && ((file) => file.chown(owner.uid, owner.gid)),
  });
}

const readIfPresent = (path: string): Promise<string | undefined> =>
  readFile(path, "utf8").catch(() => undefined);

/**
 * Replaces all files at once as the kubelet does. They lie in a folder of their own, and one rename
 * replaces the link to that folder.
 */
async function swapFolder(settings: OutputSettings, files: OutputFiles): Promise<void> {
  const { folder, owner } = settings;
  const next = `..${randomUUID()}`;
  const previous = await readlink(join(folder, currentLink)).catch(() => undefined);
  await mkdir(join(folder, next));
  try {
    // The umask must not matter: other users may enter the folder exactly if they may read the files.
    await chmod(join(folder, next), settings.mode & 0o044 ? folderMode : 0o700);
    if (owner) await chown(join(folder, next), owner.uid, owner.gid);
    for (const [name, content] of Object.entries(files)) {
      await replace(join(folder, next, name), content, settings);
    }
    await replaceLink(join(folder, currentLink), next);
  } catch (error) {
    await rm(join(folder, next), { recursive: true, force: true });
    throw error;
  }
  for (const name of Object.keys(files)) {
    const path = join(folder, name);
    const isLink = await lstat(path)
      .then((entry) => entry.isSymbolicLink())
      .catch(() => false);
    if (!isLink) await replaceLink(path, join(currentLink, name));
  }
  if (previous?.startsWith(".."))
    await rm(join(folder, previous), { recursive: true, force: true });
}

async function replaceLink(path: string, target: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  await symlink(target, temporary);
  await rename(temporary, path);
}
