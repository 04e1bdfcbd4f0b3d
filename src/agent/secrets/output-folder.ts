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
import { replaceFile } from "../../program/files/atomic-file.ts";
import type { OutputSettings } from "../configuration/output-settings.ts";

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
