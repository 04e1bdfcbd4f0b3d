import { randomUUID } from "node:crypto";
import {
  lstat,
  mkdir,
  readdir,
  readlink,
  rename,
  rm,
  rmdir,
  symlink,
  unlink,
} from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../foundation/errors.ts";
import type { OperationLog } from "../foundation/events.ts";
import { CoalescedWork } from "../program/coalesced-work.ts";
import { AtomicFile } from "../program/files/atomic-file.ts";
import { SmallFile } from "../program/files/small-file.ts";
import type { CertificatePurpose } from "./configuration/ca-settings.ts";
import type { OutputSettings } from "./configuration.ts";
import { DescriptorPath } from "./descriptor-path.ts";
import type { RefreshingIdentity } from "./identity/refreshing-identity.ts";
import { chainPem, privateKeyPem } from "./identity/x509-svid.ts";
import { ChangeHook } from "./secrets/change-hook.ts";
import type { Revocation } from "./trust/revocation.ts";
import type { TrustRoots } from "./trust/trust-roots.ts";

const retryMilliseconds = 5_000;
const crlFile = "ca-crl.pem";

interface CertificateOutputOptions {
  readonly settings: OutputSettings;
  readonly identity: Pick<RefreshingIdentity, "svid" | "changes">;
  readonly trust: Pick<TrustRoots, "pem" | "changes">;
  readonly revocation: Pick<Revocation, "isPublished" | "isAbsent" | "pem" | "changes" | "settled">;
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
  readonly #writes = new CoalescedWork(() => this.#writeOnce());
  #retry: NodeJS.Timeout | undefined;
  readonly #hook: ChangeHook | undefined;
  #fault: string | undefined;

  constructor(options: CertificateOutputOptions) {
    this.#options = options;
    const { identity, trust, revocation, settings, log } = options;
    if (settings.onChange !== undefined) this.#hook = new ChangeHook(settings.onChange, log);
    this.#unsubscribe = [identity.changes, trust.changes, revocation.changes].map((changes) =>
      changes.add(() => this.#write()),
    );
    this.#write();
  }

  /** Why programs that read the files may use old ones: one sentence for each reason. */
  get faults(): readonly string[] {
    return [this.#fault, this.#hook?.fault].filter((each) => each !== undefined);
  }

  async close(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    clearTimeout(this.#retry);
    await Promise.all([this.#writes.underWay, this.#hook?.close()]);
  }

  #write(): void {
    void this.#writes.run();
  }

  async #writeOnce(): Promise<void> {
    const { settings, log, revocation } = this.#options;
    // Waits for the first CRLs: a program that reads roots without them accepts revoked certificates.
    await revocation.settled();
    try {
      const files = this.#files();
      const isChanged = files !== undefined && (await writeOutput(settings, files));
      this.#fault = undefined;
      if (!isChanged) return;
      log.operation({ event: "files-written", level: "info", folder: settings.folder });
      this.#hook?.run();
    } catch (error) {
      const detail = messageOf(error);
      this.#fault = `the files in ${settings.folder} cannot be written: ${detail}`;
      log.operation({ event: "files-unwritten", level: "error", detail });
      clearTimeout(this.#retry);
      this.#retry = setTimeout(() => this.#write(), retryMilliseconds);
    }
  }

  #files(): OutputFiles | undefined {
    const { identity, trust, revocation, isPkcs8, purpose } = this.#options;
    const { svid } = identity;
    return (
      svid && {
        "key.pem": privateKeyPem(svid.privateKey, isPkcs8),
        // As in Istio, the file of a workload's chain ends with the roots, because some programs look for them there.
        "cert-chain.pem": purpose === "serving" ? chainPem(svid) : joinPem(svid.certChain),
        // As in Istio, an empty file revokes nothing. A file of an earlier run is removed if the CA publishes no CRLs
        // any more.
        ...(purpose === "identity" && revocation.isAbsent && { [crlFile]: undefined }),
        ...(purpose === "identity" && revocation.isPublished && { [crlFile]: revocation.pem }),
        // Written after the CRLs, so that a reader in between finds no root without its CRL.
        "root-cert.pem": trust.pem,
      }
    );
  }
}

/** Joins PEM texts, and adds a newline between two only where one is missing. */
export function joinPem(texts: readonly string[]): string {
  return texts.reduce((joined, text) => {
    const separator = joined === "" || joined.endsWith("\n") ? "" : "\n";
    return `${joined}${separator}${text}`;
  }, "");
}

/** The contents of files by name; `undefined` for a file that must not exist. */
type OutputFiles = Readonly<Record<string, string | undefined>>;

const currentLink = "..data";

/** The name that {@link swapFolder} gives to a folder. */
const ownFolder = /^\.\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Writes the files that have changed: each file atomically, or all files at once.
 *
 * @returns Whether any file has changed.
 */
export async function writeOutput(settings: OutputSettings, files: OutputFiles): Promise<boolean> {
  return DescriptorPath.withinPlace(settings.folder, async (folder) => {
    const changed: string[] = [];
    for (const [name, content] of Object.entries(files)) {
      if (!(await holds(join(folder, name), content))) changed.push(name);
    }
    if (changed.length === 0) return false;
    if (settings.isAtomic) await swapFolder({ ...settings, folder }, files);
    else for (const name of changed) await replace(join(folder, name), files[name], settings);
    return true;
  });
}

async function replace(
  path: string,
  content: string | undefined,
  { mode, owner }: OutputSettings,
): Promise<void> {
  if (content === undefined) return rm(path, { force: true });
  return AtomicFile.replace(path, content, {
    mode,
    give: owner && ((file) => file.chown(owner.uid, owner.gid)),
  });
}

/** Whether a file has this content; for `undefined`, whether it does not exist. */
async function holds(path: string, content: string | undefined): Promise<boolean> {
  if (content !== undefined) return SmallFile.holds(path, content);
  return lstat(path).then(
    (entry) => entry.isDirectory(),
    () => true,
  );
}

/**
 * Replaces all files at once as the kubelet does. They lie in a folder of their own, and one rename
 * replaces the link to that folder.
 */
async function swapFolder(settings: OutputSettings, files: OutputFiles): Promise<void> {
  const { folder, owner } = settings;
  const next = `..${randomUUID()}`;
  const previous = await readlink(join(folder, currentLink)).catch(() => undefined);
  await mkdir(join(folder, next), { mode: 0o700 });
  try {
    await DescriptorPath.within(join(folder, next), async (path, opened) => {
      if ((await readdir(path)).length > 0)
        throw new Error(`another folder is in place of ${next}`);
      // Regardless of the umask, other users may enter the folder if and only if they may read the files.
      await opened.chmod(settings.mode & 0o044 ? 0o755 : 0o700);
      if (owner) await opened.chown(owner.uid, owner.gid);
      for (const [name, content] of Object.entries(files)) {
        await replace(join(path, name), content, settings);
      }
    });
    await replaceLink(join(folder, currentLink), next);
  } catch (error) {
    await removeFolder(join(folder, next));
    throw error;
  }
  for (const [name, content] of Object.entries(files)) {
    const path = join(folder, name);
    const target = join(currentLink, name);
    if (content === undefined) await rm(path, { force: true });
    else if ((await readlink(path).catch(() => undefined)) !== target)
      await replaceLink(path, target);
  }
  // Removes only this program's folders: a process that may write here could have led the link to another folder.
  if (previous !== undefined && ownFolder.test(previous))
    await removeFolder(join(folder, previous));
}

/** Removes a folder of the agent's files. A link in its place, and folders in it, stay. */
async function removeFolder(folder: string): Promise<void> {
  try {
    await DescriptorPath.within(folder, async (path) => {
      for (const name of await readdir(path)) await unlink(join(path, name));
    });
    await rmdir(folder);
  } catch {
    // Left behind: the new files are in place, or the caller throws its own error.
  }
}

async function replaceLink(path: string, target: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  await symlink(target, temporary);
  await rename(temporary, path).catch(async (error: unknown) => {
    await unlink(temporary);
    throw error;
  });
}
