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
import { replaceFile } from "../../host/atomic-file.ts";
import type { OutputSettings } from "../configuration/configuration.ts";

/** The files of an identity by name. */
export type OutputFiles = Readonly<Record<string, string>>;

const folderMode = 0o755;
const currentLink = "..data";

/**
 * Writes the files that have changed, each of them atomically, or all of them at once.
 *
 * @returns Whether anything has changed.
 */
export async function writeOutput(settings: OutputSettings, files: OutputFiles): Promise<boolean> {
  const { folder, isAtomic } = settings;
  await mkdir(folder, { recursive: true, mode: folderMode });
  const changed: string[] = [];
  for (const [name, content] of Object.entries(files)) {
    if ((await readOrNothing(join(folder, name))) !== content) changed.push(name);
  }
  if (changed.length === 0) return false;
  if (isAtomic) await swapFolder(settings, files);
  else
    for (const name of changed) await replaceFile(join(folder, name), files[name] ?? "", settings);
  return true;
}

const readOrNothing = (path: string): Promise<string | undefined> =>
  readFile(path, "utf8").catch(() => undefined);

/**
 * The kubelet's way: the files lie in a folder of their own, a link leads to it, and to replace the
 * link is to replace them all.
 */
async function swapFolder(settings: OutputSettings, files: OutputFiles): Promise<void> {
  const { folder, owner } = settings;
  const fresh = `..${randomUUID()}`;
  const previous = await readlink(join(folder, currentLink)).catch(() => undefined);
  await mkdir(join(folder, fresh));
  try {
    // Whatever the umask says: others may enter exactly where they may read.
    await chmod(join(folder, fresh), settings.mode & 0o044 ? folderMode : 0o700);
    if (owner) await chown(join(folder, fresh), owner.uid, owner.gid);
    for (const [name, content] of Object.entries(files)) {
      await replaceFile(join(folder, fresh, name), content, settings);
    }
    await replaceLink(join(folder, currentLink), fresh);
  } catch (error) {
    await rm(join(folder, fresh), { recursive: true, force: true });
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
