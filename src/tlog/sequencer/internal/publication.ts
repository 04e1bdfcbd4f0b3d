import { Bytes } from "../../../pki/encoding/bytes.ts";
import type { Frontier } from "../../frontier.ts";
import { LogError } from "../../log-error.ts";
import type { Hash } from "../../merkle.ts";
import { Tile } from "../../tile.ts";
import { type HashEntry, type LogObjects, type LogStage, StagedBatch } from "../storage.ts";

/** An object that a publication writes. */
interface PlannedObject {
  readonly path: string;
  readonly octets: Bytes;
}

/** The tree of a publication, and the objects that it adds to the last one. */
interface Plan {
  readonly frontier: Frontier;
  readonly objects: readonly PlannedObject[];
}

/** Bounds the memory of one publication: entries of a kibibyte make sixteen mebibytes. */
const entriesPerPublication = 16_384;

/** The staged entries of a log, and how they are hashed. */
export interface Staged {
  readonly stage: LogStage;
  readonly hashEntry: HashEntry;
  /** Lets other work run, which a long plan would delay. */
  readonly yieldTurn: () => Promise<void>;
}

/**
 * Plans the publication of the staged entries after a settled tree: up to a tree of exactly `target` entries. Without
 * `target`, it plans about as many entries as one publication takes.
 *
 * @throws LogError `content` for staged entries that are damaged, or missing.
 */
export async function planPublication(
  { stage, hashEntry, yieldTurn }: Staged,
  settled: Frontier,
  target?: number,
): Promise<Plan> {
  const frontier = settled.clone();
  const bundles = new BundleWriter(settled.size);
  const objects: PlannedObject[] = [];
  const limit = target ?? settled.size + entriesPerPublication;
  let next = 0;
  let isWhole = false;
  while (!isWhole) {
    const batches = stage.batches(next);
    if (batches.length === 0) break;
    for (const batch of batches) {
      if (next !== 0 && batch.first !== next) throw missing(next);
      // A batch is not split, unless the log has committed to a tree that ends within it.
      isWhole = batch.first >= limit;
      if (isWhole) break;
      next = batch.first + batch.count;
      for (const [i, staged] of parseBatch(batch, hashEntry).entries()) {
        const index = batch.first + i;
        if (index >= (target ?? Number.POSITIVE_INFINITY)) break;
        bundles.add(index, staged);
        if (index < settled.size) continue;
        if (index !== frontier.size) throw missing(frontier.size);
        objects.push(...frontier.append(staged.hash).map(toObject));
      }
      await yieldTurn();
    }
  }
  if (target !== undefined && frontier.size !== target) throw missing(frontier.size);
  objects.push(...frontier.partialTiles().map(toObject), ...bundles.finish(settled));
  return { frontier, objects };
}

const toObject = (tile: Tile & { readonly octets: Bytes }): PlannedObject => ({
  path: Tile.path(tile),
  octets: tile.octets,
});

function missing(index: number): LogError {
  return new LogError("content", `the staged entry ${index} is missing`);
}

/** Groups entries into bundles, from the beginning of the bundle that the settled tree left partial. */
class BundleWriter {
  readonly #from: number;
  readonly #bundles = new Map<number, StagedEntry[]>();

  constructor(settledSize: number) {
    this.#from = Math.floor(settledSize / Tile.fullWidth) * Tile.fullWidth;
  }

  add(index: number, entry: StagedEntry): void {
    if (index < this.#from) return;
    const bundle = Math.floor(index / Tile.fullWidth);
    const entries = this.#bundles.get(bundle) ?? [];
    if (entries.length !== index % Tile.fullWidth)
      throw missing(bundle * Tile.fullWidth + entries.length);
    entries.push(entry);
    this.#bundles.set(bundle, entries);
  }

  /**
   * Completes the objects of the publication.
   *
   * @throws LogError `content` if the staged entries differ from those of the settled tree.
   */
  finish(settled: Frontier): readonly PlannedObject[] {
    const [firstBundle] = this.#bundles.values();
    for (const [i, leaf] of settled.lastLeaves.entries()) {
      const entry = firstBundle?.[i];
      if (!entry || !Bytes.equal(entry.hash, leaf)) throw missing(this.#from + i);
    }
    return [...this.#bundles].map(([index, entries]) => ({
      path: Tile.path({ level: "entries", index, width: entries.length }),
      // Formatted only when written: all bundles at once would double the memory of a publication.
      get octets() {
        return Tile.formatBundle(entries.map(({ entry }) => entry));
      },
    }));
  }
}

/**
 * Writes the objects of a plan. An object that is there already must be the same: a publication that was
 * interrupted is repeated.
 *
 * @throws LogError `content` for another object under the same path.
 */
export async function writeObjects(
  objects: LogObjects,
  planned: readonly PlannedObject[],
): Promise<void> {
  for (let i = 0; i < planned.length; i += writesAtOnce) {
    await Promise.all(planned.slice(i, i + writesAtOnce).map((each) => writeObject(objects, each)));
  }
}

/** A Worker may have six connections at once. */
const writesAtOnce = 6;

async function writeObject(objects: LogObjects, planned: PlannedObject): Promise<void> {
  const { path } = planned;
  if (objects.has?.(path)) return;
  const { octets } = planned;
  const stored = await objects.create(path, octets);
  if (stored === octets || (stored && Bytes.equal(stored, octets))) return;
  throw new LogError("content", `${path} is published with other octets`);
}

interface StagedEntry {
  readonly entry: Bytes;
  readonly hash: Hash;
}

/**
 * Parses the entries of a batch, and compares them with its hashes, which shows whether a stored octet has changed.
 *
 * @throws LogError `content`
 */
function parseBatch(batch: StagedBatch, hashEntry: HashEntry): readonly StagedEntry[] {
  try {
    const hashes = StagedBatch.hashes(batch);
    return StagedBatch.entries(batch).map((entry, i) => {
      const hash = hashEntry(entry);
      const stored = hashes[i];
      if (stored && Bytes.equal(stored, hash)) return { entry, hash };
      throw new LogError("content", "another entry than was appended");
    });
  } catch (error) {
    throw new LogError("content", `the staged entries from ${batch.first} on are damaged`, error);
  }
}
