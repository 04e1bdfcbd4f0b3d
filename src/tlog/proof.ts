import { Base64 } from "../pki/encoding/base64.ts";
import { Bytes } from "../pki/encoding/bytes.ts";
import { LogError } from "./log-error.ts";
import { completeRoot, emptyRoot, Hash, leftSize, type Tree } from "./merkle.ts";
import { parseSize } from "./note/checkpoint.ts";
import { Tile } from "./tile.ts";

/** Reads the octets of a tile, unverified. */
export type TileReader = (tile: Tile) => Promise<Uint8Array>;

/** A range of entries, `to` excluded, whose root is in the proof. */
interface Range {
  readonly from: number;
  readonly to: number;
}

/** Makes, verifies and serializes proofs. */
export const LogProof = {
  /**
   * Verifies that a tree has an entry at an index (RFC 9162 §2.1.3).
   *
   * @throws LogError `inclusion`
   */
  verifyInclusion({ size, root }: Tree, index: number, leaf: Hash, proof: readonly Hash[]): void {
    const isWithin = Number.isSafeInteger(index) && index >= 0 && index < size;
    const found = isWithin ? rootOver(leaf, index, size, proof) : undefined;
    if (found && Bytes.equal(found, root)) return;
    throw new LogError("inclusion", `the proof does not lead from entry ${index} to the root`);
  },

  /**
   * The proof of an entry, from its sibling upwards, by tiles that are not verified.
   * @throws LogError `form` for a tile of another width; Error if `index` is not below `size`.
   */
  proveInclusion(size: number, index: number, read: TileReader): Promise<Hash[]> {
    if (!(index >= 0 && index < size)) throw new Error("an index that the tree does not have");
    return rootsOf(inclusionRanges(index, { from: 0, to: size }), size, read);
  },

  /** Serializes a proof of inclusion with its checkpoint (C2SP tlog-proof). */
  format({ index, hashes, checkpoint, extra }: LogProof): string {
    const extraLines = extra ? [`extra ${Base64.format(extra)}`] : [];
    const lines = [header, ...extraLines, `index ${index}`, ...hashes.map(Base64.format), ""];
    return [...lines, checkpoint].join("\n");
  },

  /**
   * Parses a proof of inclusion (C2SP tlog-proof). It verifies neither the hashes nor the checkpoint.
   * @throws LogError `form` if it is malformed or too long.
   */
  parse(text: string): LogProof {
    const end = text.indexOf("\n\n");
    const [first, ...lines] = text.slice(0, Math.max(end, 0)).split("\n");
    if (text.length > maximumLength || first !== header) throw malformed();
    const extra = lines[0]?.startsWith("extra ")
      ? requireBase64(lines.shift()?.slice(6) ?? "")
      : undefined;
    const [indexLine = "", ...hashLines] = lines;
    if (!indexLine.startsWith("index ")) throw malformed();
    return {
      index: parseSize(indexLine.slice(6)),
      hashes: parseHashes(hashLines),
      checkpoint: text.slice(end + 2),
      ...(extra && { extra }),
    };
  },

  /**
   * The root over the first `older` entries, from the tiles of a tree of `size` entries.
   * @throws LogError `form`; Error if `older` exceeds `size`.
   */
  async rootAt(older: number, size: number, read: TileReader): Promise<Hash> {
    const [root = emptyRoot] = await rootsOf(
      older === 0 ? [] : [{ from: 0, to: older }],
      size,
      read,
    );
    return root;
  },
};

function rootOver(
  leaf: Hash,
  index: number,
  size: number,
  proof: readonly Hash[],
): Hash | undefined {
  const sibling = proof.at(-1);
  if (size === 1) return sibling ? undefined : leaf;
  if (!sibling) return undefined;
  const left = leftSize(size);
  const rest = proof.slice(0, -1);
  const isLeft = index < left;
  const own = isLeft
    ? rootOver(leaf, index, left, rest)
    : rootOver(leaf, index - left, size - left, rest);
  if (!own) return undefined;
  return isLeft ? Hash.ofNode(own, sibling) : Hash.ofNode(sibling, own);
}

function inclusionRanges(index: number, { from, to }: Range): readonly Range[] {
  if (to - from === 1) return [];
  const middle = from + leftSize(to - from);
  const [left, right] = [
    { from, to: middle },
    { from: middle, to },
  ];
  return index < middle
    ? [...inclusionRanges(index, left), right]
    : [...inclusionRanges(index, right), left];
}

/**
 * The proof that a tree of `size` entries extends the tree of its first `older` entries; empty if `older` is 0.
 * @throws LogError `form`; Error if `older` exceeds `size`.
 */
export function proveConsistency(older: number, size: number, read: TileReader): Promise<Hash[]> {
  if (!(older >= 0 && older <= size)) throw new Error("a tree that is not older");
  return rootsOf(
    older === 0 ? [] : consistencyRanges(older, { from: 0, to: size }, true),
    size,
    read,
  );
}

/** The ranges whose roots are in a proof of consistency. @param isKnown Whether the verifier knows the root of the older part. */
function consistencyRanges(older: number, range: Range, isKnown: boolean): readonly Range[] {
  const { from, to } = range;
  if (older === to) return isKnown ? [] : [range];
  const middle = from + leftSize(to - from);
  const [left, right] = [
    { from, to: middle },
    { from: middle, to },
  ];
  return older <= middle
    ? [...consistencyRanges(older, left, isKnown), right]
    : [...consistencyRanges(older, right, false), left];
}

async function rootsOf(ranges: readonly Range[], size: number, read: TileReader): Promise<Hash[]> {
  const tiles = new Map<string, Promise<readonly Hash[]>>();
  const hashesOf = (tile: Tile): Promise<readonly Hash[]> => {
    const path = Tile.path(tile);
    const known = tiles.get(path) ?? read(tile).then((octets) => Tile.parse(octets, tile.width));
    tiles.set(path, known);
    return known;
  };
  return Promise.all(ranges.map((range) => rootOfRange(range, size, hashesOf)));
}

type HashesOf = (tile: Tile) => Promise<readonly Hash[]>;

/** The root over a range, from the hashes of the tiles that a tree of this size has. */
async function rootOfRange({ from, to }: Range, size: number, hashesOf: HashesOf): Promise<Hash> {
  const count = to - from;
  if (!isPowerOfTwo(count)) {
    const middle = from + leftSize(count);
    const [left, right] = await Promise.all([
      rootOfRange({ from, to: middle }, size, hashesOf),
      rootOfRange({ from: middle, to }, size, hashesOf),
    ]);
    return Hash.ofNode(left, right);
  }
  let level = 0;
  while (Tile.fullWidth ** (level + 1) <= count) level++;
  const unit = Tile.fullWidth ** level;
  const first = from / unit;
  const tile = Tile.in(size, level, Math.floor(first / Tile.fullWidth));
  if (!tile) throw new Error("a range beyond the tree");
  const start = first % Tile.fullWidth;
  return completeRoot((await hashesOf(tile)).slice(start, start + count / unit));
}

function isPowerOfTwo(count: number): boolean {
  let power = 1;
  while (power < count) power *= 2;
  return power === count;
}

/** An entry's proof that needs no connection to its log (C2SP tlog-proof). */
export interface LogProof {
  readonly index: number;
  readonly hashes: readonly Hash[];
  /** The signed checkpoint, with its cosignatures, verbatim. */
  readonly checkpoint: string;
  /** An addition by the maker of the proof. Nothing authenticates it. */
  readonly extra?: Bytes | undefined;
}

const header = "c2sp.org/tlog-proof@v1";
/** The longest proof, in characters: the entry in its extra line may have 64 KiB. */
const maximumLength = 256 * 1024;
const maximumHashes = 63;

/** The hashes of a proof, one on each line. @throws LogError `form` */
function parseHashes(lines: readonly string[]): readonly Hash[] {
  if (lines.length > maximumHashes) throw malformed();
  return lines.map((line) => {
    const hash = requireBase64(line);
    if (hash.length !== Hash.octets) throw malformed();
    return hash;
  });
}

function requireBase64(text: string): Hash {
  const octets = Base64.parse(text);
  if (octets) return octets;
  throw malformed();
}

function malformed(): LogError {
  return new LogError("form", "not a proof of a log");
}
