import { concatBytes } from "../../foundation/octets.ts";
import { type Bytes, bytesEqual } from "../../pki/encoding/bytes.ts";
import { formatBundle, parseBundle } from "../bundle.ts";
import { LogError } from "../log-error.ts";
import { type Hash, hashOctets } from "../merkle.ts";
import { parseTile } from "../tile.ts";
import type { StagedBatch } from "./storage.ts";

/** Computes the leaf hash of an entry: the platform may have a faster way than this layer. */
export type HashEntry = (entry: Bytes) => Hash;

/** An entry and its leaf hash. */
export interface StagedEntry {
  readonly entry: Bytes;
  readonly hash: Hash;
}

/** The octets of a batch: the hashes of all entries, then the entries as in a bundle. */
export function formatBatch(entries: readonly Bytes[], hashEntry: HashEntry): Bytes {
  return concatBytes(...entries.map(hashEntry), formatBundle(entries));
}

/**
 * The entries of a batch. Their hashes tell an octet that has changed at rest.
 *
 * @throws LogError `content`
 */
export function parseBatch(
  { first, count, octets }: StagedBatch,
  hashEntry: HashEntry,
): readonly StagedEntry[] {
  try {
    const hashes = parseTile(octets.subarray(0, count * hashOctets), count);
    return parseBundle(octets.subarray(count * hashOctets), count).map((entry, i) => {
      const hash = hashEntry(entry);
      const stored = hashes[i];
      if (stored && bytesEqual(stored, hash)) return { entry, hash };
      throw new LogError("content", "another entry than was appended");
    });
  } catch (error) {
    throw new LogError("content", `the staged entries from ${first} on are damaged`, error);
  }
}
