import { createHash, randomUUID } from "node:crypto";
import * as z from "zod/mini";
import { JsonBounds, parseJson } from "../../foundation/json.ts";
import { type Pause, pause as systemPause } from "../../foundation/pause.ts";
import { SingleFlight } from "../../foundation/single-flight.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { Bytes } from "../../pki/encoding/bytes.ts";
import { LogError } from "../../tlog/log-error.ts";
import {
  type HashEntry,
  type LogObjects,
  type LogStage,
  StagedBatch,
  type StagedTexts,
} from "../../tlog/sequencer/storage.ts";
import { Tile } from "../../tlog/tile.ts";

type Octets = Uint8Array<ArrayBuffer>;

/** The octets of an object, and its version, which a write may require. */
interface VersionedOctets {
  readonly octets: Octets;
  readonly version: string;
}

/** Objects that many processes write. Of several writes that replace one version, at most one is confirmed. */
export interface ConditionalObjects {
  readonly read: (path: string) => Promise<VersionedOctets | undefined>;
  /**
   * Replaces `version`, or creates the object.
   * @param octets May be changed once this has settled.
   * @param digest The SHA-256 of the octets in hexadecimal, from a writer that knows it.
   * @returns The new version; `undefined` if another write came first.
   */
  readonly write: (
    path: string,
    octets: Octets,
    version: string | undefined,
    digest?: string,
  ) => Promise<string | undefined>;
}

/** Another process has written to the log meanwhile, so this process's copy of it is outdated. */
export class Overtaken extends Error {
  override readonly name = "Overtaken";
}

/** The path of the stage below the prefix of its log. */
export const stagePath = "stage.json";

/** The most staged entries that a stage may have in bundles. `BucketLog` stops accepting entries long before. */
const maximumBundled = 65_536;

const index = z.int().check(z.minimum(0));
const bundleEdge = index.check(z.multipleOf(Tile.fullWidth));
const stageSchema = z.strictObject({
  version: z.literal(1),
  /** The id of the write, by which a writer recognizes its own write when the response was lost. */
  writer: z.string(),
  key: z.string(),
  head: z.string(),
  named: z.optional(z.string()),
  /** The indexes of staged entries that are already in full bundles. */
  bundled: z.optional(
    z
      .strictObject({ from: bundleEdge, to: bundleEdge })
      .check(z.refine(({ from, to }) => from <= to && to - from <= maximumBundled)),
  ),
  batches: z.array(
    z.strictObject({ first: index, count: z.int().check(z.minimum(1)), octets: z.string() }),
  ),
});

type StageForm = z.infer<typeof stageSchema>;
type Save = readonly [texts: Partial<StagedTexts>, deleteUpTo: number | undefined];

/** The content of a stage: its texts, and the entries that are not completely published. */
export interface StageContent {
  readonly texts: StagedTexts | undefined;
  readonly batches: readonly StagedBatch[];
}

/** What a stage needs. */
interface StageMeans {
  readonly hashEntry: HashEntry;
  readonly pause?: Pause | undefined;
}

const nothing: StageContent = { texts: undefined, batches: [] };

/**
 * After a write of several entries, the next write waits until as many have come again, because their callers may call
 * again at once. It waits no longer than the last write took, nor than this. Each write costs money and time to sign.
 */
const longestRestMilliseconds = 50;

/**
 * The stage of a log in one object. It changes in memory, and its owner must not answer callers before {@link commit}
 * has written it. A commit replaces only the version that was read, so that of two processes only one continues. Entries
 * that fill a bundle are moved there, and are not written with the stage again.
 *
 * Once a write has failed, the stage in memory may differ from the object: its owner reads another one.
 */
export class ObjectStage implements LogStage {
  readonly #objects: ConditionalObjects;
  readonly #means: StageMeans;
  readonly #writer = randomUUID();
  #content = nothing;
  /** The content of the object, as far as this process knows. */
  #confirmed = nothing;
  #version: string | undefined;
  /** The entries between these indexes are in bundles that were written or read. */
  #bundledFrom = 0;
  #bundledUpTo = 0;
  /** What was saved since the last write. It can be applied to a stage that another process has written; entries cannot. */
  #saved: Save[] = [];
  #changes = 0;
  #lastAppend = 0;
  #durable = 0;
  /** The last commit, and the number of the last change that it makes durable. */
  #commit: { readonly wanted: number; readonly done: Promise<void> } | undefined;
  #failure: Error | undefined;
  #isOutdated = false;
  readonly #writes = new SingleFlight<void>();
  readonly #bundling = new SingleFlight<void>();
  /** The pause after the last write, and what ends it early. */
  #rest = Promise.resolve();
  #endRest = new AbortController();
  /** The entries that wait for the next write, and how many of them end the pause. */
  #waiting = 0;
  #enough = 1;
  readonly #body = new StageBody();

  private constructor(objects: ConditionalObjects, means: StageMeans) {
    this.#objects = objects;
    this.#means = means;
  }

  /** Reads the stage; empty if the object does not exist. @throws LogError if it is malformed or lacks its bundles. */
  static async read(objects: ConditionalObjects, means: StageMeans): Promise<ObjectStage> {
    const stage = new ObjectStage(objects, means);
    await stage.#read();
    return stage;
  }

  /** The content that is durable. */
  get confirmed(): StageContent {
    return this.#confirmed;
  }

  /** Whether a sequencer must not continue with this stage. */
  get isOutdated(): boolean {
    return this.#isOutdated;
  }

  /** Whether a write failed because another process had written. */
  get isOvertaken(): boolean {
    return this.#failure instanceof Overtaken;
  }

  /** Makes this stage outdated, so that nothing is appended to it any more. */
  abandon(): void {
    this.#isOutdated = true;
  }

  /** Whether a path is that of a full bundle that this stage has written or read. */
  hasBundle(path: string): boolean {
    const { level, index, width } = Tile.parsePath(path) ?? {};
    const isBundle = level === "entries" && width === Tile.fullWidth && index !== undefined;
    return (
      isBundle &&
      index * Tile.fullWidth >= this.#bundledFrom &&
      (index + 1) * Tile.fullWidth <= this.#bundledUpTo
    );
  }

  readonly texts = (): StagedTexts | undefined => this.#content.texts;

  readonly batches = (from: number): readonly StagedBatch[] =>
    this.#content.batches.filter(({ first }) => first >= from);

  readonly end = (): number | undefined => endOf(this.#content.batches);

  /** How many entries are staged. */
  get size(): number {
    const { batches } = this.#content;
    return (endOf(batches) ?? 0) - (batches[0]?.first ?? 0);
  }

  /** Counts an entry that waits to be appended. Once there are as many as the pause waits for, it ends. */
  expectEntry(): void {
    if (++this.#waiting >= this.#enough) this.#endRest.abort("enough");
  }

  readonly append = (batch: StagedBatch): void => {
    this.#waiting = 0;
    if (this.#isOutdated) throw new Overtaken("another process writes the log");
    this.#content = { ...this.#content, batches: [...this.#content.batches, batch] };
    this.#lastAppend = ++this.#changes;
  };

  readonly save = (...save: [texts: Partial<StagedTexts>, deleteUpTo?: number]): void => {
    const [texts, deleteUpTo] = save;
    this.#apply([texts, deleteUpTo]);
    this.#saved.push([texts, deleteUpTo]);
    this.#changes++;
  };

  /** Runs work once no write is under way and the pause is over, so that entries that come meanwhile form one batch. */
  readonly nextTurn = (work: () => void): void => {
    const begin = async (): Promise<void> => {
      await this.#writes.underWay?.catch(() => {});
      await this.#rest;
      setImmediate(work);
    };
    void begin();
  };

  /** Whether no other process has written since this stage was read. */
  async isCurrent(): Promise<boolean> {
    const stored = await this.#objects.read(stagePath);
    if (!stored || stored.version === this.#version) return stored?.version === this.#version;
    return parse(stored.octets).writer.startsWith(this.#writer);
  }

  /**
   * Makes all earlier changes durable. If others have meanwhile only appended, and not changed the head, a changed head is
   * written beside their entries, which it does not cover.
   *
   * @throws Overtaken, and errors of the objects, after which the write may have happened.
   */
  commit(): Promise<void> {
    const wanted = this.#changes;
    // One promise for all callers of a batch, because V8's collector copies each object that lives through a write.
    if (this.#commit?.wanted !== wanted) this.#commit = { wanted, done: this.#commitUpTo(wanted) };
    return this.#commit.done;
  }

  async #commitUpTo(wanted: number): Promise<void> {
    while (this.#durable < wanted) {
      if (this.#failure) throw this.#failure;
      await this.#writes.join(() => this.#writeOrFail());
    }
  }

  async #writeOrFail(): Promise<void> {
    try {
      for (let attempt = 0; attempt < 20; attempt++) {
        if (await this.#write()) return;
        if (!(await this.#absorb())) break;
      }
      throw new Overtaken("another process writes the log");
    } catch (error) {
      this.#isOutdated = true;
      this.#failure = error instanceof Error ? error : new Error(String(error));
      throw error;
    }
  }

  #apply([texts, deleteUpTo = 0]: Save): void {
    this.#bundledFrom = Math.max(this.#bundledFrom, deleteUpTo);
    this.#content = {
      texts: { key: "", head: "", ...this.#content.texts, ...texts },
      batches: this.#content.batches.filter(({ first, count }) => first + count > deleteUpTo),
    };
  }

  async #write(): Promise<boolean> {
    const [content, changes, saves] = [this.#content, this.#changes, this.#saved.length];
    const writer = `${this.#writer} ${changes}`;
    const { octets, digest } = this.#format(writer);
    const begun = performance.now();
    let version = await this.#objects.write(stagePath, octets, this.#version, digest);
    const took = performance.now() - begun;
    if (version === undefined) {
      // The conflict may be with this very write, whose first response was lost.
      const stored = await this.#objects.read(stagePath);
      if (!stored || parse(stored.octets).writer !== writer) return false;
      version = stored.version;
    }
    const more = (endOf(content.batches) ?? 0) - (endOf(this.#confirmed.batches) ?? 0);
    this.#version = version;
    this.#confirmed = content;
    this.#durable = changes;
    this.#saved = this.#saved.slice(saves);
    if (more > 1) this.#beginRest(Math.min(took, longestRestMilliseconds), more);
    void this.#bundling.join(() => this.#writeBundles()).catch(() => {});
    return true;
  }

  #beginRest(milliseconds: number, written: number): void {
    const { pause = systemPause } = this.#means;
    this.#endRest = new AbortController();
    this.#enough = this.#waiting + written;
    this.#rest = pause(milliseconds, this.#endRest.signal);
  }

  #format(writer: string): FormattedStage {
    const { texts = { key: "", head: "" }, batches } = this.#content;
    const [from, to] = [this.#bundledFrom, this.#bundledUpTo];
    const bundled = to > from && { bundled: { from, to } };
    const inStage = batches.filter(({ first, count }) => first + count > to);
    return this.#body.format(inStage, { version: 1, writer, ...texts, ...bundled });
  }

  /** Writes full bundles. They will not change, because a confirmed entry keeps its index. */
  async #writeBundles(): Promise<void> {
    for (;;) {
      const { batches } = this.#confirmed;
      const start = Math.max(this.#bundledFrom, bundleEnd(batches[0]?.first ?? 0));
      const first = Math.max(this.#bundledUpTo, start);
      const next = first + Tile.fullWidth;
      if ((endOf(batches) ?? 0) < next) return;
      if (first > this.#bundledUpTo) this.#bundledFrom = first;
      const inside = batches.filter((each) => each.first < next && each.first + each.count > first);
      const entries = inside.flatMap((each) =>
        StagedBatch.entries(each).slice(Math.max(0, first - each.first), next - each.first),
      );
      const octets = Tile.formatBundle(entries);
      const stored = await create(this.#objects, bundlePath(first), octets);
      // If there is a different bundle, leaves it to the publication, which refuses it.
      if (stored !== octets && !(stored && Bytes.equal(stored, octets))) return;
      this.#bundledUpTo = next;
    }
  }

  /** Reads what others have written since, and applies the saved texts to it. @returns Whether that is possible. */
  async #absorb(): Promise<boolean> {
    const mine = this.#confirmed;
    const hasAppended = (): boolean => this.#lastAppend > this.#durable;
    if (hasAppended()) return false;
    await this.#read();
    const { texts, batches } = this.#confirmed;
    const isWhole = mine.batches.every((each, i) => isSame(each, batches[i]));
    if (hasAppended() || !isWhole || texts?.head !== mine.texts?.head) return false;
    this.#isOutdated = true;
    for (const save of this.#saved) this.#apply(save);
    return true;
  }

  async #read(): Promise<void> {
    const stored = await this.#objects.read(stagePath);
    this.#version = stored?.version;
    this.#content = this.#confirmed = nothing;
    if (!stored) return;
    const { key, head, named, bundled = { from: 0, to: 0 }, batches } = parse(stored.octets);
    const firsts = Array.from(
      { length: (bundled.to - bundled.from) / Tile.fullWidth },
      (_, i) => bundled.from + i * Tile.fullWidth,
    );
    const before = await Promise.all(firsts.map((first) => this.#readBundle(first)));
    const inside = batches.map((each) => this.#cut(decode(each), bundled.to));
    [this.#bundledFrom, this.#bundledUpTo] = [bundled.from, bundled.to];
    this.#content = { texts: { key, head, named }, batches: [...before, ...inside] };
    this.#confirmed = this.#content;
  }

  async #readBundle(first: number): Promise<StagedBatch> {
    const stored = await this.#objects.read(bundlePath(first));
    if (!stored) throw new LogError("missing", `the staged entries from ${first} on are gone`);
    return StagedBatch.of(
      first,
      Tile.parseBundle(stored.octets, Tile.fullWidth),
      this.#means.hashEntry,
    );
  }

  /** A batch without the entries before `from`, which are in a bundle already. */
  #cut(batch: StagedBatch, from: number): StagedBatch {
    if (batch.first >= from) return batch;
    const entries = StagedBatch.entries(batch).slice(from - batch.first);
    return StagedBatch.of(from, entries, this.#means.hashEntry);
  }
}

/** The JSON of a stage, and its SHA-256 in hexadecimal. */
interface FormattedStage {
  readonly octets: Octets;
  readonly digest: string;
}

/**
 * The JSON of a stage in one buffer for all writes, of which one is under way at a time. It begins with the batches, so
 * that each is encoded and hashed once: encoded for every write, or into new buffers, they keep V8 collecting its old
 * space.
 */
class StageBody {
  #buffer = Buffer.allocUnsafeSlow(0);
  #batches: readonly StagedBatch[] = [];
  /** Where the last batch ends. */
  #end = 0;
  /** Of the octets before {@link #end}. */
  #hash = createHash("sha256");

  /** @returns Octets that are valid until the next call. */
  format(batches: readonly StagedBatch[], rest: Omit<StageForm, "batches">): FormattedStage {
    const isLonger = this.#batches.every((each, i) => each === batches[i]);
    if (!isLonger || this.#batches.length === 0) {
      this.#batches = [];
      this.#end = 0;
      this.#hash = createHash("sha256");
      this.#extend('{"batches":[');
    }
    for (const batch of batches.slice(this.#batches.length)) this.#append(batch, batches[0]);
    this.#batches = batches;
    const end = this.#write(`],${JSON.stringify(rest).slice(1)}`);
    const digest = this.#hash.copy().update(this.#buffer.subarray(this.#end, end)).digest("hex");
    return { octets: new Uint8Array(this.#buffer.buffer, 0, end), digest };
  }

  #append(batch: StagedBatch, head: StagedBatch | undefined): void {
    const { first, count, octets } = batch;
    const comma = batch === head ? "" : ",";
    this.#extend(`${comma}{"first":${first},"count":${count},"octets":"${Base64.format(octets)}"}`);
  }

  #extend(text: string): void {
    const end = this.#write(text);
    this.#hash.update(this.#buffer.subarray(this.#end, end));
    this.#end = end;
  }

  /** Writes a text after the last batch. @returns Where it ends. */
  #write(text: string): number {
    const end = this.#end + Buffer.byteLength(text);
    if (end > this.#buffer.length) {
      const before = this.#buffer.subarray(0, this.#end);
      this.#buffer = Buffer.allocUnsafeSlow(2 * end);
      this.#buffer.set(before);
    }
    this.#buffer.write(text, this.#end);
    return end;
  }
}

const endOf = (batches: readonly StagedBatch[]): number | undefined => {
  const last = batches.at(-1);
  return last && last.first + last.count;
};

/** `from`, rounded up to an index at which a bundle begins. */
const bundleEnd = (from: number): number => Math.ceil(from / Tile.fullWidth) * Tile.fullWidth;

const bundlePath = (first: number): string =>
  Tile.path({ level: "entries", index: first / Tile.fullWidth, width: Tile.fullWidth });

const isSame = (one: StagedBatch, other?: StagedBatch): boolean =>
  one.first === other?.first && Buffer.compare(one.octets, other.octets) === 0;

function decode({ octets: text, ...each }: StageForm["batches"][number]): StagedBatch {
  const octets = Base64.parse(text);
  if (octets) return { ...each, octets };
  throw damaged();
}

const damaged = (cause?: unknown): LogError =>
  new LogError("form", `${stagePath} of the log is damaged`, cause);

function parse(octets: Uint8Array): StageForm {
  try {
    return stageSchema.parse(parseJson(octets, JsonBounds.unbounded));
  } catch (error) {
    throw damaged(error);
  }
}

async function create(
  objects: ConditionalObjects,
  path: string,
  octets: Octets,
): Promise<Octets | undefined> {
  if ((await objects.write(path, octets, undefined)) !== undefined) return octets;
  return (await objects.read(path))?.octets;
}

/**
 * The published objects of a log beside its stage. Nothing is published before the stage that commits to it is written.
 * A checkpoint replaces only the one that was read with the stage, so that a slow process cannot restore an older one.
 */
export function publishedObjects(objects: ConditionalObjects, stage: ObjectStage): LogObjects {
  let checkpoint: string | undefined;
  return {
    has: (path) => stage.hasBundle(path),
    read: async (path) => {
      const stored = await objects.read(path);
      if (path === Tile.checkpointPath) checkpoint = stored?.version;
      return stored?.octets;
    },
    create: async (path, octets) => {
      await stage.commit();
      return create(objects, path, octets);
    },
    replace: async (path, octets) => {
      await stage.commit();
      const version = await objects.write(path, octets, checkpoint);
      if (version === undefined) {
        const stored = await objects.read(path);
        // It is no conflict if the response to this very write was lost, or another process has published the same.
        if (!stored || !Bytes.equal(stored.octets, octets))
          throw new Overtaken("another process publishes the log");
        checkpoint = stored.version;
      } else checkpoint = version;
    },
  };
}
