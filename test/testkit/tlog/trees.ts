import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Frontier } from "../../../src/tlog/frontier.ts";
import { Hash, type Tree } from "../../../src/tlog/merkle.ts";
import type { TileReader } from "../../../src/tlog/proof.ts";
import { Tile } from "../../../src/tlog/tile.ts";

/** A vector file of the folder `test/vectors/tlog`. */
export async function tlogVectors<T>(name: string): Promise<T> {
  const file = join(import.meta.dirname, "../../vectors/tlog", name);
  return JSON.parse(await readFile(file, "utf8")) as T;
}

/** The entry of the vectors at an index. */
export const entryAt = (index: number): Uint8Array<ArrayBuffer> =>
  new TextEncoder().encode(`entry ${index}`);

export const hex = (octets: Uint8Array): string => Buffer.from(octets).toString("hex");

/** A tree of vector entries, which knows every tile that it ever had. */
export class GrownTree {
  readonly frontier: Frontier = Frontier.empty();
  readonly tiles = new Map<string, Uint8Array>();

  grow(size: number): this {
    while (this.frontier.size < size) {
      for (const tile of this.frontier.append(Hash.ofLeaf(entryAt(this.frontier.size)))) {
        this.tiles.set(Tile.path(tile), tile.octets);
      }
    }
    for (const tile of this.frontier.partialTiles()) this.tiles.set(Tile.path(tile), tile.octets);
    return this;
  }

  get tree(): Tree {
    return { size: this.frontier.size, root: this.frontier.root() };
  }

  readonly read: TileReader = async (tile) => {
    const octets = this.tiles.get(Tile.path(tile));
    if (octets) return octets;
    throw new Error(`no tile ${Tile.path(tile)}`);
  };
}

/** The root by the definition of RFC 9162 §2.1.1, without tiles: an oracle for small trees. */
export function rootByDefinition(leaves: readonly Hash[], node: (l: Hash, r: Hash) => Hash): Hash {
  const [only] = leaves;
  if (leaves.length === 1 && only) return only;
  let left = 1;
  while (left * 2 < leaves.length) left *= 2;
  return node(
    rootByDefinition(leaves.slice(0, left), node),
    rootByDefinition(leaves.slice(left), node),
  );
}
