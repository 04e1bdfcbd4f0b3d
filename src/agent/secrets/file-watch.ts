import { createHash } from "node:crypto";
import { existsSync, type FSWatcher, readlinkSync, watch } from "node:fs";
import { dirname, relative, resolve, sep } from "node:path";
import { readPemFileNow } from "../../program/files/pem-file.ts";

interface FileWatchOptions {
  /** The pause without events after which the file is read. */
  readonly debounceMilliseconds: number;
  /** A larger file counts as missing. By default certificates, keys and roots fit. */
  readonly maximumOctets?: number | undefined;
  readonly onChange: () => void;
  /** Called when a folder cannot be watched. The file is then read every few seconds. */
  readonly onFailure: (error: unknown) => void;
}

const pollMilliseconds = 5_000;
const maximumLinks = 10;

/**
 * Watches the content of the file that a path leads to, through any symbolic links: the kubelet swaps
 * them. It watches folders, because writers replace files by renaming. Neither the file nor its folder need be there
 * yet. Only a difference in content is a change.
 */
export class FileWatch {
  readonly #path: string;
  readonly #options: FileWatchOptions;
  readonly #watchers = new Map<string, FSWatcher>();
  #digest: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(path: string, options: FileWatchOptions) {
    this.#path = resolve(path);
    this.#options = options;
    // Synchronous, so that no change after the constructor is missed.
    this.#watchFolders();
    this.#digest = digestOf(this.#path, options.maximumOctets);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  /** Watches exactly the folders that the path leads through now. */
  #watchFolders(): void {
    const folders = new Map([...foldersOf(this.#path)].map(nearestFolder));
    for (const [folder, watcher] of this.#watchers) {
      if (folders.has(folder)) continue;
      watcher.close();
      this.#watchers.delete(folder);
    }
    for (const [folder, awaited] of folders) {
      if (!this.#watchers.has(folder)) this.#watchFolder(folder, awaited);
    }
  }

  #watchFolder(folder: string, awaited: string | undefined): void {
    try {
      const watcher = watch(folder, { persistent: false }, (_event, name) => {
        if (awaited === undefined || name === null || name === awaited) this.#scheduleCheck();
      });
      watcher.on("error", (error) => this.#pollInstead(folder, error));
      this.#watchers.set(folder, watcher);
    } catch (error) {
      this.#pollInstead(folder, error);
    }
  }

  #pollInstead(folder: string, error: unknown): void {
    this.#watchers.get(folder)?.close();
    this.#watchers.delete(folder);
    this.#options.onFailure(error);
    this.#scheduleCheck(pollMilliseconds);
  }

  #scheduleCheck(milliseconds: number = this.#options.debounceMilliseconds): void {
    if (this.#isClosed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#check(), milliseconds);
    this.#timer.unref();
  }

  #check(): void {
    this.#watchFolders();
    const digest = digestOf(this.#path, this.#options.maximumOctets);
    if (digest === this.#digest) return;
    this.#digest = digest;
    // The last content of a missing file stays in use.
    if (digest !== undefined) this.#options.onChange();
  }
}

/** Reads synchronously: the files are small, and are read seldom. */
function digestOf(path: string, maximumOctets?: number): string | undefined {
  const content = unlessAbsent(() => readPemFileNow(path, maximumOctets));
  return content && createHash("sha256").update(content).digest("hex");
}

/** The folder of the path, and the folder of each symbolic link on the way to the file. */
function foldersOf(path: string): ReadonlySet<string> {
  const folders = new Set<string>();
  let remainingLinks = maximumLinks;
  const visit = (current: string): void => {
    const folder = dirname(current);
    folders.add(folder);
    // The kubelet swaps `..data`, a link in the middle of the path.
    for (const part of [current, folder]) {
      const target = unlessAbsent(() => readlinkSync(part));
      if (target === undefined || remainingLinks <= 0) continue;
      remainingLinks--;
      const next = resolve(dirname(part), target);
      visit(part === current ? next : resolve(next, current.slice(folder.length + 1)));
    }
  };
  visit(path);
  return folders;
}

/** The folder itself, or the nearest one above it that exists, with the name in it that has to appear. */
function nearestFolder(folder: string): readonly [folder: string, awaited: string | undefined] {
  let existing = folder;
  while (!existsSync(existing) && dirname(existing) !== existing) existing = dirname(existing);
  return [existing, existing === folder ? undefined : relative(existing, folder).split(sep)[0]];
}

function unlessAbsent<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    // A missing file, one that cannot be read, a device or pipe, and a path that is no link: all are absent.
    return undefined;
  }
}
