import { parseBase64, toBase64 } from "../pki/encoding/base64.ts";
import { type Bytes, bytesEqual } from "../pki/encoding/bytes.ts";
import { LogError } from "./log-error.ts";
import { completeRoot, type Hash, hashOctets, leftSize, nodeHash, type Tree } from "./merkle.ts";
import { parseSize } from "./note/checkpoint.ts";
import { parseTile, type Tile, tileIn, tilePath, tileWidth } from "./tile.ts";

/** The octets of a tile. Nobody has verified them. */
export type TileReader = (tile: Tile) => Promise<Uint8Array>;

/** Entries `from` to before `to`, whose root stands in a proof. */
interface Range {
  readonly from: number;
  readonly to: number;
}

/**
 * Verifies that a tree has an entry at an index (RFC 9162 §2.1.3).
 *
 * @throws LogError `inclusion`
 */
export function verifyInclusion(
  { size, root }: Tree,
  index: number,
  leaf: Hash,
  proof: readonly Hash[],
): void {
  const isWithin = Number.isSafeInteger(index) && index >= 0 && index < size;
  const found = isWithin ? rootOver(leaf, index, size, proof) : undefined;
  if (found && bytesEqual(found, root)) return;
  throw new LogError("inclusion", `the proof does not lead from entry ${index} to the root`);
}

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
  return isLeft ? nodeHash(own, sibling) : nodeHash(sibling, own);
}

/**
 * Verifies that a tree begins with all entries of an older one (RFC 9162 §2.1.4).
 *
 * @throws LogError `consistency`
 */
export function verifyConsistency(older: Tree, newer: Tree, proof: readonly Hash[]): void {
  if (isConsistent(older, newer, proof)) return;
  throw new LogError(
    "consistency",
    `the tree of ${newer.size} entries does not extend the one of ${older.size}`,
  );
}

function isConsistent(older: Tree, newer: Tree, proof: readonly Hash[]): boolean {
  if (older.size === 0) return proof.length === 0;
  if (older.size > newer.size) return false;
  const roots = rootsOver({ from: 0, to: newer.size }, older, proof);
  return !!roots && bytesEqual(roots.older, older.root) && bytesEqual(roots.newer, newer.root);
}

interface Roots {
  readonly older: Hash;
  readonly newer: Hash;
}

function rootsOver({ from, to }: Range, older: Tree, proof: readonly Hash[]): Roots | undefined {
  const last = proof.at(-1);
  if (older.size === to) {
    // The older root is known; every other subtree of both trees comes with the proof.
    const whole = from === 0 ? older.root : last;
    const isExact = proof.length === (from === 0 ? 0 : 1);
    return whole && isExact ? { older: whole, newer: whole } : undefined;
  }
  if (!last) return undefined;
  const middle = from + leftSize(to - from);
  const rest = proof.slice(0, -1);
  if (older.size <= middle) {
    const roots = rootsOver({ from, to: middle }, older, rest);
    return roots && { older: roots.older, newer: nodeHash(roots.newer, last) };
  }
  const roots = rootsOver({ from: middle, to }, older, rest);
  return roots && { older: nodeHash(last, roots.older), newer: nodeHash(last, roots.newer) };
}

/** The proof of an entry, from its sibling upwards. @throws LogError `form` for a tile of another width. */
export function proveInclusion(size: number, index: number, read: TileReader): Promise<Hash[]> {
  if (!(index >= 0 && index < size)) throw new Error("an index that the tree does not have");
  return rootsOf(inclusionRanges(index, { from: 0, to: size }), size, read);
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

/** The proof that the tree of a size extends its first `older` entries. @throws LogError `form` */
export function proveConsistency(older: number, size: number, read: TileReader): Promise<Hash[]> {
  if (!(older >= 0 && older <= size)) throw new Error("a tree that is not older");
  return rootsOf(
    older === 0 ? [] : consistencyRanges(older, { from: 0, to: size }, true),
    size,
    read,
  );
}

/** @param isKnown Whether the verifier knows the root over the older part of the range. */
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
    const path = tilePath(tile);
    const known = tiles.get(path) ?? read(tile).then((octets) => parseTile(octets, tile.width));
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
    return nodeHash(left, right);
  }
  let level = 0;
  while (tileWidth ** (level + 1) <= count) level++;
  const unit = tileWidth ** level;
  const first = from / unit;
  const tile = tileIn(size, level, Math.floor(first / tileWidth));
  if (!tile) throw new Error("a range beyond the tree");
  const start = first % tileWidth;
  return completeRoot((await hashesOf(tile)).slice(start, start + count / unit));
}

function isPowerOfTwo(count: number): boolean {
  let power = 1;
  while (power < count) power *= 2;
  return power === count;
}

/** An entry's proof that needs no connection to its log (C2SP tlog-proof). */
interface LogProof {
  readonly index: number;
  readonly hashes: readonly Hash[];
  /** The signed checkpoint, with its cosignatures, verbatim. */
  readonly checkpoint: string;
  /** An addition by the maker of the proof. Nothing authenticates it. */
  readonly extra?: Bytes | undefined;
}

const header = "c2sp.org/tlog-proof@v1";
/** An entry in the extra line may have 64 KiB. */
const maximumLength = 256 * 1024;
const maximumHashes = 63;

export function formatLogProof({ index, hashes, checkpoint, extra }: LogProof): string {
  const extraLines = extra ? [`extra ${toBase64(extra)}`] : [];
  const lines = [header, ...extraLines, `index ${index}`, ...hashes.map(toBase64), ""];
  return [...lines, checkpoint].join("\n");
}

/** @throws LogError `form` */
export function parseLogProof(text: string): LogProof {
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
}

/** The hashes of a proof, one on each line. @throws LogError `form` */
export function parseHashes(lines: readonly string[]): readonly Hash[] {
  if (lines.length > maximumHashes) throw malformed();
  return lines.map((line) => {
    const hash = requireBase64(line);
    if (hash.length !== hashOctets) throw malformed();
    return hash;
  });
}

function requireBase64(text: string): Hash {
  const octets = parseBase64(text);
  if (octets) return octets;
  throw malformed();
}

function malformed(): LogError {
  return new LogError("form", "not a proof of a log");
}
