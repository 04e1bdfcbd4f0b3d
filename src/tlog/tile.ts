import type { Bytes } from "../pki/encoding/bytes.ts";
import { LogError } from "./log-error.ts";
import { Hash } from "./merkle.ts";

/** Names a tile of hashes or a bundle of entries. Its width is 256 if it is full, else 1 to 255. */
export interface Tile {
  /** The height of the hashes in powers of 256, or `entries` for a bundle. */
  readonly level: number | "entries";
  readonly index: number;
  readonly width: number;
}

/** Names, serializes and parses tiles and bundles (C2SP tlog-tiles). */
export const Tile = {
  /** The path of a tile below a log's prefix. */
  path({ level, index, width }: Tile): string {
    const partial = width < Tile.fullWidth ? `.p/${width}` : "";
    return `tile/${level}/${indexPath(index)}${partial}`;
  },

  /** The tile of a path, or `undefined` for any other path. Each tile has exactly one path. */
  parsePath(path: string): Tile | undefined {
    const [, level = "", groups = "", partial] = pathPattern.exec(path) ?? [];
    const tile = {
      level: level === "entries" ? level : Number(level),
      index: Number(groups.replace(/[x/]/g, "")),
      width: partial === undefined ? Tile.fullWidth : Number(partial),
    } as const;
    return Tile.path(tile) === path ? tile : undefined;
  },

  /** The tile at a level and index of a tree of this size, with its width; `undefined` beyond the edge of the tree. */
  in(size: number, level: Tile["level"], index: number): Tile | undefined {
    const count = level === "entries" ? size : hashesAt(level, size);
    const width = Math.min(Tile.fullWidth, count - index * Tile.fullWidth);
    return width > 0 ? { level, index, width } : undefined;
  },

  /** Serializes a tile: its hashes, concatenated. */
  format(hashes: readonly Hash[]): Hash {
    const octets = new Uint8Array(hashes.length * Hash.octets);
    for (const [i, hash] of hashes.entries()) octets.set(hash, i * Hash.octets);
    return octets;
  },

  /** The hashes of a tile, as views of its octets. @throws LogError `form` for another width. */
  parse(octets: Uint8Array, width: number): readonly Hash[] {
    if (octets.length !== width * Hash.octets) {
      throw new LogError("form", `a tile of ${octets.length} octets instead of ${width} hashes`);
    }
    return Array.from({ length: width }, (_, i) =>
      octets.subarray(i * Hash.octets, (i + 1) * Hash.octets),
    ) as Hash[];
  },

  /** The hashes of a full tile, and the entries of a full bundle (C2SP tlog-tiles). */
  fullWidth: 256,

  /** The path of the newest checkpoint below a log's prefix. */
  checkpointPath: "checkpoint" as const,

  /** Entries as a bundle, each after its length (C2SP tlog-tiles, "Log Entries"). @throws Error for one that is too long. */
  formatBundle(entries: readonly Uint8Array[]): Bytes {
    const octets = new Uint8Array(entries.reduce((sum, { length }) => sum + 2 + length, 0));
    const view = new DataView(octets.buffer);
    let at = 0;
    for (const entry of entries) {
      if (entry.length > maximumEntryOctets) throw new Error("an entry that is too long for a log");
      view.setUint16(at, entry.length);
      octets.set(entry, at + 2);
      at += 2 + entry.length;
    }
    return octets;
  },

  /** The entries of a bundle, as views of its octets. @throws LogError `form` for another number of entries. */
  parseBundle(octets: Uint8Array, width: number): readonly Bytes[] {
    const view = new DataView(octets.buffer, octets.byteOffset, octets.length);
    const entries: Bytes[] = [];
    let at = 0;
    while (at + 2 <= octets.length) {
      const end = at + 2 + view.getUint16(at);
      if (end > octets.length) break;
      entries.push(octets.subarray(at + 2, end) as Bytes);
      at = end;
    }
    if (at === octets.length && entries.length === width) return entries;
    throw new LogError("form", `not a bundle of ${width} entries`);
  },
};

/** The path of an index: groups of three digits, all but the last with an `x`, such as `x001/x234/067` for 1234067. */
function indexPath(index: number): string {
  const last = String(index % 1000).padStart(3, "0");
  const rest = Math.floor(index / 1000);
  return rest > 0 ? `${prefixedPath(rest)}/${last}` : last;
}

function prefixedPath(index: number): string {
  const last = `x${String(index % 1000).padStart(3, "0")}`;
  const rest = Math.floor(index / 1000);
  return rest > 0 ? `${prefixedPath(rest)}/${last}` : last;
}

const pathPattern =
  /^tile\/(entries|0|[1-9]|[1-5][0-9]|6[0-3])\/((?:x[0-9]{3}\/){0,4}[0-9]{3})(?:\.p\/([1-9][0-9]{0,2}))?$/;

/** How many complete subtrees of 256^level entries a tree has. */
export function hashesAt(level: number, size: number): number {
  return Math.floor(size / Tile.fullWidth ** level);
}

/** The length of the longest entry: its length takes two octets. */
export const maximumEntryOctets = 65_535;
