import { createHash } from "node:crypto";
import { type FSWatcher, readFileSync, readlinkSync, watch } from "node:fs";
import { dirname, resolve } from "node:path";

/** How a file is watched. */
export interface FileWatchOptions {
  /** How long a file must be left alone before it is looked at. */
  readonly debounceMilliseconds: number;
  readonly onChange: () => void;
  /** Told when a folder cannot be watched; the file is then looked at every few seconds. */
  readonly onFailure: (error: unknown) => void;
}

const pollMilliseconds = 5_000;
const maximumLinks = 10;

/**
 * Watches what a path leads to: the file, through any symbolic links on its way, as the kubelet swaps
 * them. It is the folders that are watched, because files are replaced by renaming; and what counts as
 * a change is another content, not an event.
 */
export class FileWatch {
  readonly #path: string;
  readonly #options: FileWatchOptions;
  readonly #watchers = new Map<string, FSWatcher>();
  #seen: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(path: string, options: FileWatchOptions) {
    this.#path = resolve(path);
    this.#options = options;
    // All of it now: what changes after this line is told of.
    this.#watchFolders();
    this.#seen = digestOf(this.#path);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  /** Watches the folders that the path leads through now, and no others. */
  #watchFolders(): void {
    const folders = foldersOf(this.#path);
    for (const [folder, watcher] of this.#watchers) {
      if (folders.has(folder)) continue;
      watcher.close();
      this.#watchers.delete(folder);
    }
    for (const folder of folders) {
      if (!this.#watchers.has(folder)) this.#watchFolder(folder);
    }
  }

  #watchFolder(folder: string): void {
    try {
      const watcher = watch(folder, { persistent: false }, () => this.#lookAfter());
      watcher.on("error", (error) => this.#lose(folder, error));
      this.#watchers.set(folder, watcher);
    } catch (error) {
      this.#lose(folder, error);
    }
  }

  #lose(folder: string, error: unknown): void {
    this.#watchers.get(folder)?.close();
    this.#watchers.delete(folder);
    this.#options.onFailure(error);
    this.#lookAfter(pollMilliseconds);
  }

  #lookAfter(milliseconds: number = this.#options.debounceMilliseconds): void {
    if (this.#isClosed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), milliseconds);
    this.#timer.unref();
  }

  #look(): void {
    this.#watchFolders();
    const digest = digestOf(this.#path);
    if (digest === this.#seen) return;
    this.#seen = digest;
    // A file that is gone is about to come back, or was meant to go: what was read stays in use.
    if (digest !== undefined) this.#options.onChange();
  }
}

/** The files are small, and looked at seldom: nothing is gained by waiting for them elsewhere. */
function digestOf(path: string): string | undefined {
  const content = unlessAbsent(() => readFileSync(path));
  return content && createHash("sha256").update(content).digest("hex");
}

/** The folder of the path, and that of each symbolic link on the way to the file. */
function foldersOf(path: string): ReadonlySet<string> {
  const folders = new Set<string>();
  let left = maximumLinks;
  const visit = (current: string): void => {
    const folder = dirname(current);
    folders.add(folder);
    // A link in the middle of the path counts as much as one at its end: the kubelet swaps `..data`.
    for (const part of [current, folder]) {
      const target = unlessAbsent(() => readlinkSync(part));
      if (target === undefined || left <= 0) continue;
      left--;
      const next = resolve(dirname(part), target);
      visit(part === current ? next : resolve(next, current.slice(folder.length + 1)));
    }
  };
  visit(path);
  return folders;
}

function unlessAbsent<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    // Not there, not a link, not ours to read: there is nothing to see.
    return undefined;
  }
}
