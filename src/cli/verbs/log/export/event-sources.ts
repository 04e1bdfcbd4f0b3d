import { type FileHandle, open } from "node:fs/promises";
import { resolve } from "node:path";
import { OperatorError } from "../../../../foundation/errors.ts";
import { errorCode } from "../../../../program/files/small-file.ts";
import { LogError } from "../../../../tlog/log-error.ts";
import { Checkpoint } from "../../../../tlog/note/checkpoint.ts";
import { parseNote } from "../../../../tlog/note/note.ts";
import type { Terminal } from "../../../terminal/terminal.ts";
import type { IndexedEntry } from "../entry.ts";
import type { FollowerIndex } from "../follower-index.ts";
import { type ExportedEvent, exportedEntry, exportedLine } from "./exported-event.ts";
import { digestOf, filesSince, isOf, type Position, positionIn, readAt } from "./file-mark.ts";

/** A source of events to export, in their order. */
export interface ExportSource {
  /** The name under which its position is stored. */
  readonly name: string;
  /** Reads the next events after a position, and the position after them; `undefined` if nothing is new. */
  readonly after: (position: Position | undefined) => Promise<EventBatch | undefined>;
}

/** Some events of a source, and the position after them. */
export interface EventBatch {
  /** The exported events, which may be none: an audit trail has other lines. */
  readonly events: readonly ExportedEvent[];
  readonly position: Position;
}

/** The most events and octets that are written or sent at once. One event alone may be longer. */
const batchEvents = 500;
const batchOctets = 256 * 1024;

/**
 * Makes a source of the verified entries in the copy of one shard. Its `after` throws LogError `consistency` if the
 * copy lacks the last exported entry.
 * @returns `undefined` for an empty copy.
 */
export function entriesOf(
  index: FollowerIndex,
): (ExportSource & { readonly size: number }) | undefined {
  const state = index.state();
  if (!state) return undefined;
  const { origin } = Checkpoint.parse(parseNote(state.checkpoint).text);
  const { size } = state.frontier;
  return {
    name: origin,
    size,
    after: async (position) => {
      const from = position?.at ?? 0;
      requireExported(index, origin, position);
      const entries: IndexedEntry[] = [];
      let octets = 0;
      for (const entry of index.from(from)) {
        if (entry.idx >= size || entries.length === batchEvents || octets > batchOctets) break;
        entries.push(entry);
        octets += 2 * entry.octets.length;
      }
      const last = entries.at(-1);
      return (
        last && {
          events: entries.map((entry) => exportedEntry(origin, entry)),
          position: { at: last.idx + 1, mark: digestOf(last.octets) },
        }
      );
    },
  };
}

/** Requires that the copy has the last exported entry. @throws LogError `consistency` */
function requireExported(
  index: FollowerIndex,
  origin: string,
  position: Position | undefined,
): void {
  if (!position) return;
  const [last] = index.all<IndexedEntry>("SELECT * FROM entry WHERE idx = ?", position.at - 1);
  if (last && digestOf(last.octets) === position.mark) return;
  const detail = `the copy of ${origin} has not the entry ${position.at - 1} that was exported`;
  throw new LogError("consistency", detail);
}

/**
 * Makes a source of the events in an audit trail that no log has: refusals, faults, and issuances that were not
 * logged. It follows rotations, and complains if unread lines are gone. A line of 256 KiB or more is skipped. Its `after`
 * throws OperatorError for an unreadable file.
 */
export function auditedIn(path: string, terminal: Terminal): ExportSource {
  return {
    name: `audit ${resolve(path)}`,
    after: async (position) => {
      const files = position ? await filesSince(path, position) : [path];
      if (!files) {
        terminal.complain(
          `${path}: the file that was read last is gone, and so are lines that it had since`,
        );
      }
      let from = files ? position : undefined;
      for (const each of files ?? [path]) {
        const batch = await linesAfter(each, from);
        if (batch) return batch;
        from = undefined;
      }
      return undefined;
    },
  };
}

/** Reads the next complete lines of a file. */
async function linesAfter(
  path: string,
  from: Position | undefined,
): Promise<EventBatch | undefined> {
  await using file = await openRegular(path);
  if (!file || (from && !(await isOf(file, from)))) return undefined;
  const at = from?.at ?? 0;
  const octets = await readAt(file, at, batchOctets);
  // A line that is longer than a batch is skipped, because no part of it is an event.
  const isLonger = octets.length === batchOctets;
  const end = octets.lastIndexOf("\n") + 1 || (isLonger ? octets.length : 0);
  if (end === 0) return undefined;
  const lines = octets.subarray(0, end).toString().split("\n");
  const events = lines.flatMap((line) => exportedLine(line) ?? []);
  return { events, position: await positionIn(file, at + end) };
}

async function openRegular(path: string): Promise<FileHandle | undefined> {
  const file = await open(path).catch((error: unknown) => {
    if (errorCode(error) === "ENOENT") return undefined;
    throw new OperatorError(`${path} cannot be read`, { cause: error });
  });
  if (!file || (await file.stat()).isFile()) return file;
  await file.close();
  throw new OperatorError(`${path} is no file of lines`);
}
