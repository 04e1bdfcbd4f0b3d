import { concatBytes } from "../foundation/octets.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { LogError } from "./log-error.ts";
import { completeRoot, emptyRoot, Hash } from "./merkle.ts";
import { hashesAt, Tile } from "./tile.ts";

/** A tile of the Merkle tree with its serialized hashes. */
export interface WrittenTile extends Tile {
  readonly octets: Bytes;
}

/**
 * The right edge of a growing tree: the hashes of the partial tile at every level, at most 255 each. They
 * suffice to append entries and to compute the root.
 */
export class Frontier {
  #size: number;
  readonly #levels: Hash[][];

  private constructor(size: number, levels: Hash[][]) {
    this.#size = size;
    this.#levels = levels;
  }

  /** The frontier of a tree without entries. */
  static empty(): Frontier {
    return new Frontier(0, []);
  }

  /** The number of entries of the tree. */
  get size(): number {
    return this.#size;
  }

  /** Copies the frontier. The copy grows independently. */
  clone(): Frontier {
    return new Frontier(
      this.#size,
      this.#levels.map((level) => [...level]),
    );
  }

  /** Appends the hash of an entry. @returns The tiles that it completes. */
  append(leaf: Hash): readonly WrittenTile[] {
    const completed: WrittenTile[] = [];
    this.#size++;
    let hash = leaf;
    for (let level = 0; ; level++) {
      const hashes = this.#levels[level] ?? [];
      this.#levels[level] = hashes;
      hashes.push(hash);
      if (hashes.length < Tile.fullWidth) return completed;
      const index = hashesAt(level + 1, this.#size) - 1;
      completed.push({ level, index, width: Tile.fullWidth, octets: Tile.format(hashes) });
      hash = completeRoot(hashes);
      hashes.length = 0;
    }
  }

  /** The partial tiles of the tree as it is now. */
  partialTiles(): readonly WrittenTile[] {
    return this.#levels.flatMap((hashes, level) =>
      hashes.length === 0
        ? []
        : [
            {
              level,
              index: hashesAt(level + 1, this.#size),
              width: hashes.length,
              octets: Tile.format(hashes),
            },
          ],
    );
  }

  /** The hashes of the last entries, those after the last full tile. */
  get lastLeaves(): readonly Hash[] {
    return this.#levels[0] ?? [];
  }

  /** The root of the tree; {@link emptyRoot} without entries. */
  root(): Hash {
    let root: Hash | undefined;
    for (const hashes of this.#levels) {
      for (const subtree of completeSubtrees(hashes).toReversed()) {
        root = root ? Hash.ofNode(subtree, root) : subtree;
      }
    }
    return root ?? emptyRoot;
  }

  /** The hashes of all levels, for {@link fromBytes}. Their number follows from the size. */
  toBytes(): Bytes {
    return concatBytes(...this.#levels.map(Tile.format));
  }

  /** The frontier that {@link toBytes} wrote. @throws LogError `form` for octets of a tree of another size. */
  static fromBytes(size: number, octets: Uint8Array): Frontier {
    const levels: Hash[][] = [];
    let at = 0;
    for (let level = 0; hashesAt(level, size) > 0; level++) {
      const width = hashesAt(level, size) % Tile.fullWidth;
      levels.push([...Tile.parse(octets.subarray(at, at + width * Hash.octets), width)]);
      at += width * Hash.octets;
    }
    if (at !== octets.length) throw new LogError("form", "the edge of a tree of another size");
    return new Frontier(size, levels);
  }
}

/** The roots of the complete subtrees that partial hashes make, the largest first. */
function completeSubtrees(hashes: readonly Hash[]): readonly Hash[] {
  const roots: Hash[] = [];
  let at = 0;
  for (let power = Tile.fullWidth / 2; power >= 1; power /= 2) {
    if (hashes.length - at < power) continue;
    roots.push(completeRoot(hashes.slice(at, at + power)));
    at += power;
  }
  return roots;
}
