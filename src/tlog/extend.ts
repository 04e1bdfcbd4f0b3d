import { Bytes } from "../pki/encoding/bytes.ts";
import type { Frontier, WrittenTile } from "./frontier.ts";
import { LogError } from "./log-error.ts";
import { Hash, type Tree } from "./merkle.ts";
import { Tile } from "./tile.ts";

/** Reads a published object; `undefined` if there is none. */
export type ObjectReader = (path: string) => Promise<Uint8Array | undefined>;

/** How many bundles are read at once. */
const bundlesAtOnce = 8;

/** Reads and verifies the objects of a log. */
export const ObjectReader = {
  /**
   * Reads the entries between a known tree and a newer one, and verifies every entry, every tile, and that the newer tree
   * extends the known one.
   *
   * @param visit Gets the entries in order. They are verified only once this function has returned.
   * @throws LogError `missing`, `content`, `form`; `consistency` if the newer tree has another root.
   */
  async extend(
    known: Frontier,
    tree: Tree,
    read: ObjectReader,
    visit: (index: number, entry: Uint8Array) => void,
  ): Promise<Frontier> {
    if (tree.size < known.size) {
      throw new LogError("consistency", `the log has shrunk from ${known.size} to ${tree.size}`);
    }
    const frontier = known.clone();
    // In another history both tile and root are wrong, and the root proves the fork. So a wrong tile is reported only if
    // the root is right.
    let wrong: string | undefined;
    for (let index = known.size; index < tree.size; ) {
      const bundles = await readBundles(index, tree.size, read);
      for (const entry of bundles) {
        for (const tile of frontier.append(Hash.ofLeaf(entry)))
          wrong ??= await differing(tile, read);
        visit(index++, entry);
      }
    }
    for (const tile of frontier.partialTiles()) wrong ??= await differing(tile, read);
    if (!Bytes.equal(frontier.root(), tree.root)) {
      throw new LogError(
        "consistency",
        `its ${tree.size} entries do not make the tree that it signed`,
      );
    }
    if (wrong !== undefined)
      throw new LogError("content", `${wrong} is not the tile of the entries`);
    return frontier;
  },

  /**
   * The octets of a tile or bundle, unverified. If a partial one is gone, they are cut from the full one.
   *
   * @throws LogError `missing`
   */
  async readTile(tile: Tile, read: ObjectReader): Promise<Uint8Array> {
    const octets = (await read(Tile.path(tile))) ?? (await readFull(tile, read));
    if (octets) return octets;
    const first = Tile.fullWidth * tile.index;
    const what =
      tile.level === "entries" ? `, with the entries ${first} to ${first + tile.width - 1}` : "";
    throw new LogError("missing", `${Tile.path(tile)} is not there${what}`);
  },
};

/** The entries of the next bundles, from an index on. */
async function readBundles(
  from: number,
  size: number,
  read: ObjectReader,
): Promise<readonly Uint8Array[]> {
  const first = Math.floor(from / Tile.fullWidth);
  const tiles = Array.from({ length: bundlesAtOnce }, (_, i) =>
    Tile.in(size, "entries", first + i),
  );
  const bundles = await Promise.all(
    tiles.map(async (tile) =>
      tile ? Tile.parseBundle(await ObjectReader.readTile(tile, read), tile.width) : [],
    ),
  );
  return bundles.flat().slice(from % Tile.fullWidth);
}

async function readFull(tile: Tile, read: ObjectReader): Promise<Uint8Array | undefined> {
  if (tile.width === Tile.fullWidth) return undefined;
  const full = await read(Tile.path({ ...tile, width: Tile.fullWidth }));
  if (!full || tile.level !== "entries") return full?.slice(0, 32 * tile.width);
  const view = new DataView(full.buffer, full.byteOffset, full.length);
  let end = 0;
  for (let i = 0; i < tile.width && end + 2 <= full.length; i++) end += 2 + view.getUint16(end);
  return full.slice(0, end);
}

/** The path of the tile if it is published with other octets, else `undefined`. @throws LogError `missing` */
async function differing(tile: WrittenTile, read: ObjectReader): Promise<string | undefined> {
  return Bytes.equal(await ObjectReader.readTile(tile, read), tile.octets)
    ? undefined
    : Tile.path(tile);
}
