import { type FileHandle, open } from "node:fs/promises";
import { dirname } from "node:path";
import { StoreOwner } from "../../../../node/files/store-owner.ts";
import type { ExportState } from "./export-state.ts";
import { filesSince, isOf, type Position, positionIn, readAt } from "./file-mark.ts";

/** The name, in the state, of the position in the target file. The other names are those of sources. */
const own = "";

/**
 * Appends lines to a file, once each. The state has every write before it begins, so that after a crash the next
 * process finds out how much of it the file has, and writes the rest.
 */
export class FileTarget {
  readonly #path: string;
  readonly #state: ExportState;

  constructor(path: string, state: ExportState) {
    this.#path = path;
    this.#state = state;
  }

  /** Appends lines, and stores the position of their source. A pending write must be finished first. */
  async write(lines: string, source: string, position: Position): Promise<void> {
    await this.#begin();
    this.#state.prepare({ octets: Buffer.from(lines), source, position });
    await this.finish();
  }

  /** Completes a pending write, if there is one, in the file in which it was begun. */
  async finish(): Promise<void> {
    const pending = this.#state.pending();
    const begun = this.#state.position(own);
    if (!pending || !begun) return;
    const [path = this.#path] = (await filesSince(this.#path, begun)) ?? [];
    await using file = await openToAppend(path);
    const { octets, source, position } = pending;
    const { size } = await file.stat();
    const at = (await isOf(file, begun)) ? Math.min(begun.at, size) : size;
    const written = await readAt(file, at, octets.length);
    const isOurs = written.equals(octets.subarray(0, written.length));
    if (!isOurs) await endLine(file);
    await file.appendFile(octets.subarray(isOurs ? written.length : 0));
    await file.sync();
    const end = await positionIn(file, (await file.stat()).size);
    this.#state.save({ [source]: position, [own]: end });
  }

  /** Stores where the next write begins: in a new file, if the last one was rotated away. */
  async #begin(): Promise<void> {
    await using file = await openToAppend(this.#path);
    const known = this.#state.position(own);
    const { size } = await file.stat();
    if (known?.at === size && (await isOf(file, known))) return;
    await endLine(file);
    this.#state.save({ [own]: await positionIn(file, (await file.stat()).size) });
  }
}

/** Opens a file for appending; a new one gets the owner of its folder. */
async function openToAppend(path: string): Promise<FileHandle> {
  const file = await open(path, "a+", 0o600);
  const { size } = await file.stat();
  if (size === 0) await StoreOwner.leaveFile(file, dirname(path));
  return file;
}

/** Ends the last line of a file, if a crash has left it without its end. */
async function endLine(file: FileHandle): Promise<void> {
  const { size } = await file.stat();
  const last = size > 0 ? await readAt(file, size - 1, 1) : undefined;
  if (last && last.toString() !== "\n") await file.appendFile("\n");
}
