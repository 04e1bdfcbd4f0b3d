import { LogEntry } from "../../../ca/issuance/log-entry.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { StoreOwner } from "../../../node/files/store-owner.ts";
import { ObjectReader } from "../../../tlog/extend.ts";
import { Frontier } from "../../../tlog/frontier.ts";
import { LogError } from "../../../tlog/log-error.ts";
import { Checkpoint } from "../../../tlog/note/checkpoint.ts";
import { parseNote } from "../../../tlog/note/note.ts";
import { type AcceptedCheckpoint, LogPolicy } from "../../../tlog/note/policy.ts";
import { VerifierKey } from "../../../tlog/note/verifier-key.ts";
import { Tile } from "../../../tlog/tile.ts";
import { usageError } from "../../terminal/command-line.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { OutputReader, Terminal } from "../../terminal/terminal.ts";
import { printable } from "../../terminal/text.ts";
import { loggedEntry } from "./entry.ts";
import { FollowerIndex } from "./follower-index.ts";
import {
  chosenPolicy,
  type LogSource,
  openSource,
  policyOfKey,
  type SourceOptions,
} from "./log-source.ts";
import { addRequest } from "./logged-requests.ts";

/** The options of every verb that reads a log. */
export interface FollowerOptions extends SourceOptions {
  readonly dir?: string;
  readonly json?: boolean;
}

/** A verified copy of a log, and the source of its new entries. */
export interface Follower extends Disposable {
  readonly index: FollowerIndex;
  readonly source: LogSource | undefined;
  readonly policy: LogPolicy;
  readonly terminal: Terminal;
  readonly reader: OutputReader;
}

/**
 * Opens a copy, or makes one; without `dir`, in memory. The key is pinned on the first visit unless the options give
 * one. No entry is read before {@link synchronize}.
 * @throws OperatorError without a log to read, and for a log without a key.
 */
export async function openFollower(
  terminal: Terminal,
  options: FollowerOptions,
): Promise<Follower> {
  if (options.dir === undefined && options.url === undefined) {
    throw usageError("name a log: --url of its prefix, --dir of a copy, or both");
  }
  terminal.noticePlace(placeOf(options), options);
  const source = await openSource(options, terminal.environment);
  const index = await orOperatorError(() => openIndex(options));
  try {
    const policy = (await chosenPolicy(options)) ?? (await pinnedPolicy(terminal, index, source));
    const reader = { json: options.json };
    return {
      index,
      source,
      policy,
      terminal,
      reader,
      [Symbol.dispose]: () => index[Symbol.dispose](),
    };
  } catch (error) {
    index[Symbol.dispose]();
    throw error;
  }
}

async function openIndex({ dir }: FollowerOptions): Promise<FollowerIndex> {
  if (dir !== undefined) await StoreOwner.makeFolder(dir, await StoreOwner.of(dir));
  return new FollowerIndex(dir);
}

const placeOf = ({ url, dir }: FollowerOptions): string =>
  [...(url === undefined ? [] : [`log ${url}`]), ...(dir === undefined ? [] : [`copy in ${dir}`])]
    .map(printable)
    .join(", ");

/**
 * The policy of the key that the copy has pinned, or of the one that the server announces on the first visit. A log
 * with another key is refused later.
 */
async function pinnedPolicy(
  terminal: Terminal,
  index: FollowerIndex,
  source: LogSource | undefined,
): Promise<LogPolicy> {
  const key = index.state()?.verifierKey ?? (await source?.announcedKey());
  if (key === undefined) throw new OperatorError(await withoutKey(source));
  if (!index.state()) terminal.notice(`rampart: trusting ${printable(key)}, as the server says`);
  return policyOfKey(key);
}

async function withoutKey(source: LogSource | undefined): Promise<string> {
  const [shard] = (await source?.otherShards()) ?? [];
  if (shard === undefined) return "the log names no key: give --key or --policy";
  return `${source?.url} is no shard of the log: give --url ${shard}`;
}

/**
 * Verifies what is new in the log, and adds it to the copy: all or nothing. Without a source, it opens the stored checkpoint.
 * Too few witnesses are no error: the caller judges `cosigned`.
 * @throws LogError if the log contradicts itself or the copy, FetchError, and OperatorError for an empty copy without a
 *   source.
 */
export const synchronize = (follower: Follower): Promise<AcceptedCheckpoint> =>
  follower.terminal.progress("reading the log", () => takeNews(follower), follower.reader);

async function takeNews({ index, source, policy }: Follower): Promise<AcceptedCheckpoint> {
  const known = index.state();
  if (!source) {
    if (!known) throw new OperatorError("the copy is empty: follow the log with --url first");
    return LogPolicy.open(known.checkpoint, policy);
  }
  const octets = await source.read(Tile.checkpointPath);
  if (!octets) throw new LogError("missing", "the log has no checkpoint");
  const text = new TextDecoder().decode(octets);
  const accepted = await LogPolicy.open(text, policy);
  requireSameLog(accepted, known?.checkpoint);
  await index.transaction(async () => {
    const read = recording(source.read, index);
    const frontier = await ObjectReader.extend(
      known?.frontier ?? Frontier.empty(),
      accepted.checkpoint,
      read,
      (idx, entry) => addEntry(index, idx, entry),
    ).catch((error: unknown) => {
      throw known && error instanceof LogError && error.fault === "consistency"
        ? new LogError("consistency", `the log does not extend the copy: ${error.message}`, error)
        : error;
    });
    const verifierKey = VerifierKey.format(accepted.log.key);
    index.save({ frontier, checkpoint: text, verifierKey });
  });
  return accepted;
}

/**
 * Reads and verifies the whole log up to a checkpoint. The copy is neither used nor changed.
 * @throws LogError if the log contradicts itself, OperatorError without a source.
 */
export async function verifyAnew(
  { source, terminal, reader }: Follower,
  { checkpoint }: AcceptedCheckpoint,
): Promise<void> {
  if (!source) throw usageError("name the log: --url of its prefix");
  await terminal.progress(
    "reading the log",
    () =>
      ObjectReader.extend(Frontier.empty(), checkpoint, source.read, (_, entry) =>
        loggedEntry(LogEntry.parse(entry)),
      ),
    reader,
  );
}

function addEntry(index: FollowerIndex, idx: number, octets: Uint8Array): void {
  const entry = LogEntry.parse(octets);
  const logged = loggedEntry(entry);
  index.addEntry(idx, octets, logged);
  addRequest(index, idx, entry, logged);
  const certificate = LogEntry.certificateOf(entry);
  if (certificate && logged.isAuthority) index.addAuthority(idx, certificate);
}

function requireSameLog({ checkpoint }: AcceptedCheckpoint, known: string | undefined): void {
  if (known === undefined) return;
  const before = Checkpoint.parse(parseNote(known).text);
  if (before.origin === checkpoint.origin) return;
  throw new LogError("origin", `the copy is of ${before.origin}, not of ${checkpoint.origin}`);
}

/** Wraps a reader: it stores the tiles of hashes that it reads, from which proofs are made. */
function recording(read: ObjectReader, index: FollowerIndex): ObjectReader {
  return async (path) => {
    const octets = await read(path);
    if (octets && !path.startsWith("tile/entries/")) index.addTile(path, octets);
    return octets;
  };
}
