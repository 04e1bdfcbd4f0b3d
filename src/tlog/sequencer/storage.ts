import { concatBytes } from "../../foundation/octets.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { Hash } from "../merkle.ts";
import type { NoteSigner } from "../note/note.ts";
import { Tile } from "../tile.ts";

/** Entries that were appended together. */
export interface StagedBatch {
  /** The index of the first entry. */
  readonly first: number;
  readonly count: number;
  /** The leaf hashes of all entries, then the entries as in a bundle. */
  readonly octets: Bytes;
}

/** Computes the leaf hash of an entry. A platform may do it faster than this layer. */
export type HashEntry = (entry: Bytes) => Hash;

/** Makes and reads batches. */
export const StagedBatch = {
  /** A batch of entries, with their leaf hashes. */
  of(first: number, entries: readonly Bytes[], hashEntry: HashEntry): StagedBatch {
    const octets = concatBytes(...entries.map(hashEntry), Tile.formatBundle(entries));
    return { first, count: entries.length, octets };
  },

  /** The hashes, not compared with the entries. @throws LogError `form` */
  hashes: ({ count, octets }: StagedBatch): readonly Hash[] =>
    Tile.parse(octets.subarray(0, count * Hash.octets), count),

  /** The entries, as views of the octets. @throws LogError `form` */
  entries: ({ count, octets }: StagedBatch): readonly Bytes[] =>
    Tile.parseBundle(octets.subarray(count * Hash.octets), count),
};

/** The small texts of a log: its sealed key, and what it has committed to. */
export interface StagedTexts {
  readonly key: string;
  readonly head: string;
  /** The names of the named entries in the log, as JSON. */
  readonly named?: string | undefined;
}

/**
 * Stores the entries of one log until their tiles are published. One sequencer writes to it.
 *
 * Every method is synchronous and atomic. A write that returns is durable before any answer that depends
 * on it leaves the machine: an implementation flushes, or its platform delays answers. A write that
 * throws may or may not be there afterwards, as a whole.
 */
export interface LogStage {
  /** `undefined` before the log has begun. */
  readonly texts: () => StagedTexts | undefined;
  /** A few batches from an index on. The index must be the beginning of a batch, or 0. */
  readonly batches: (from: number) => readonly StagedBatch[];
  /** The index after the last entry; `undefined` when there are no entries. */
  readonly end: () => number | undefined;
  /** Adds a batch, which begins at {@link LogStage.end}. */
  readonly append: (batch: StagedBatch) => void;
  /** Writes texts, and deletes the batches that end at this index or before it. */
  readonly save: (texts: Partial<StagedTexts>, deleteUpTo?: number) => void;
}

/**
 * Where a log is published: its tiles, its bundles and its checkpoint, by their paths.
 *
 * A reader that begins after a write has resolved sees it. Nothing but a log writes below its prefix.
 */
export interface LogObjects {
  /** Reads an object; `undefined` if there is none. */
  readonly read: (path: string) => Promise<Bytes | undefined>;
  /** Stores an object unless there is one. @returns The object that is at the path afterwards. */
  readonly create: (path: string, octets: Bytes) => Promise<Bytes | undefined>;
  /** Whether this process has stored the object with the octets of this log, so that it need not be created again. */
  readonly has?: (path: string) => boolean;
  /** Replaces the checkpoint, atomically for its readers. */
  readonly replace: (path: string, octets: Bytes) => Promise<void>;
}

/** Makes and opens the key that signs the checkpoints of a log. */
export interface LogKeys {
  readonly create: () => Promise<OpenedLogKey>;
  /** Opens a stored key. It rejects a record that is not of this log's key. */
  readonly open: (record: string) => Promise<OpenedLogKey>;
}

/** The signing key of a log, and its record, which replaces the stored one. */
export interface OpenedLogKey {
  readonly signer: NoteSigner;
  readonly record: string;
}

/** The path of the object with the key by which readers verify a log. */
const verifierKeyPath = "vkey";

/** Publishes and reads the verifier key of a log. */
export const LogObjects = {
  /** Publishes the verifier key of an open log, unless it is there. */
  async publishVerifierKey(
    { create }: Pick<LogObjects, "create">,
    { verifierKey }: { readonly verifierKey: string | undefined },
  ): Promise<void> {
    await create(verifierKeyPath, new TextEncoder().encode(`${verifierKey}\n`));
  },

  /** The published verifier key; `undefined` for a log that has not begun. */
  async readVerifierKey(read: LogObjects["read"]): Promise<string | undefined> {
    const octets = await read(verifierKeyPath);
    return octets && new TextDecoder().decode(octets).trim();
  },
};
