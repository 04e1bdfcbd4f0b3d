import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { PemFile } from "../../program/files/pem-file.ts";

interface FileWatchOptions {
  /** How long a file must stay unchanged before it is read. */
  readonly debounceMilliseconds: number;
  /** A larger file counts as missing. The default is enough for certificates, keys and roots. */
  readonly maximumOctets?: number | undefined;
}

/** The longest interval between two looks, each of which is one `stat`. */
const longestLookMilliseconds = 1_000;

/**
 * Watches the content of the file that a path leads to, through any symbolic links: the kubelet swaps them. Neither the
 * file nor its folder need be there yet. Only a difference in content is a change; the removal of the file is none.
 *
 * It polls: a machine has a limited number of file watches, and some file systems notify of nothing.
 *
 * @returns A function that ends the watch.
 */
export function watchFile(
  path: string,
  onChange: () => void,
  { debounceMilliseconds, maximumOctets }: FileWatchOptions,
): () => void {
  const lookMilliseconds = Math.min(
    longestLookMilliseconds,
    10 * Math.max(debounceMilliseconds, 5),
  );
  // Synchronous, so that no change after the call is missed.
  let seen = stateOf(path);
  let read = seen;
  let digest = digestOf(path, maximumOctets);
  let timer = setTimeout(look, lookMilliseconds).unref();

  function look(): void {
    const state = stateOf(path);
    const isSettled = state === seen;
    seen = state;
    timer = setTimeout(look, isSettled ? lookMilliseconds : debounceMilliseconds).unref();
    if (!isSettled || state === read) return;
    read = state;
    const next = digestOf(path, maximumOctets);
    // While a file is missing, its last content stays in use.
    if (next === undefined || next === digest) return;
    digest = next;
    onChange();
  }

  return () => clearTimeout(timer);
}

/**
 * A state that changes with a file's content, found without reading it. A file behind another link has another state.
 */
function stateOf(path: string): string {
  const found = unlessAbsent(() => statSync(path, { bigint: true }));
  return found ? [found.dev, found.ino, found.size, found.mtimeNs, found.ctimeNs].join(" ") : "";
}

/** A digest of the content; `undefined` if it is unreadable. Synchronous: the files are small and seldom read. */
function digestOf(path: string, maximumOctets?: number): string | undefined {
  const content = unlessAbsent(() => PemFile.readNow(path, maximumOctets));
  return content && createHash("sha256").update(content).digest("hex");
}

function unlessAbsent<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    // A missing or unreadable file counts as absent, and so does a device or pipe.
    return undefined;
  }
}
