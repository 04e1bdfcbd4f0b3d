import { randomUUID } from "node:crypto";
import * as z from "zod/mini";
import { JsonBounds, parseJson } from "../../foundation/json.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { LogError } from "../../tlog/log-error.ts";
import type {
  LogObjects,
  LogStage,
  StagedBatch,
  StagedTexts,
} from "../../tlog/sequencer/storage.ts";
import { checkpointPath } from "../../tlog/tile.ts";

/** The octets of one object, and the version that a write of it may name. */
interface VersionedOctets {
  readonly octets: Uint8Array<ArrayBuffer>;
  readonly version: string;
}

/** Objects that many processes write, of whose writes to one version at most one is confirmed. */
export interface ConditionalObjects {
  readonly read: (path: string) => Promise<VersionedOctets | undefined>;
  /** @returns The version of what it has written; `undefined` if another write came before. */
  readonly write: (
    path: string,
    octets: Uint8Array<ArrayBuffer>,
    version: string | undefined,
  ) => Promise<string | undefined>;
}

/** Another process has written to the log meanwhile, so that this one's copy of it is outdated. */
export class Overtaken extends Error {
  override readonly name = "Overtaken";
}

const stagePath = "stage.json";

const stageSchema = z.strictObject({
  version: z.literal(1),
  /** The id of the write, by which a writer recognizes its own write when the response was lost. */
  writer: z.string(),
  key: z.string(),
  head: z.string(),
  named: z.optional(z.string()),
  batches: z.array(
    z.strictObject({ first: z.int(), count: z.int().check(z.minimum(1)), octets: z.string() }),
  ),
});

type Save = readonly [texts: Partial<StagedTexts>, deleteUpTo: number | undefined];

/**
 * The stage of a log in one object. It changes in memory, and its owner answers nobody before {@link commit} has
 * written it: only over the version that was read, so that of two processes one alone goes on.
 */
export class ObjectStage implements LogStage {
  readonly #objects: ConditionalObjects;
  #texts: StagedTexts | undefined;
  #batches: readonly StagedBatch[] = [];
  #version: string | undefined;
  /** What was saved since the last write. Entries of this process cannot be moved behind entries of another one. */
  #saved: Save[] = [];
  #hasAppended = false;
  /** The head when the object was read. */
  #headRead: string | undefined;

  private constructor(objects: ConditionalObjects) {
    this.#objects = objects;
  }

  /** @throws LogError for an object of another form. */
  static async read(objects: ConditionalObjects): Promise<ObjectStage> {
    const stage = new ObjectStage(objects);
    await stage.#read();
    return stage;
  }

  readonly texts = (): StagedTexts | undefined => this.#texts;

  readonly batches = (from: number): readonly StagedBatch[] =>
    this.#batches.filter(({ first }) => first >= from);

  readonly end = (): number | undefined => {
    const last = this.#batches.at(-1);
    return last && last.first + last.count;
  };

  readonly append = (batch: StagedBatch): void => {
    this.#batches = [...this.#batches, batch];
    this.#hasAppended = true;
  };

  readonly save = (...save: [texts: Partial<StagedTexts>, deleteUpTo?: number]): void => {
    const [texts, deleteUpTo] = save;
    this.#apply([texts, deleteUpTo]);
    this.#saved.push([texts, deleteUpTo]);
  };

  /** Whether no other process has written since this stage was read. */
  async isCurrent(): Promise<boolean> {
    return (await this.#objects.read(stagePath))?.version === this.#version;
  }

  /**
   * Makes everything durable. Entries that others have appended meanwhile do no harm to a head, which covers those
   * before them: it is written beside them unless it is no longer the one that was read.
   *
   * @throws Overtaken
   */
  async commit(): Promise<void> {
    for (let attempt = 0; attempt < 20; attempt++) {
      if (!this.#hasAppended && this.#saved.length === 0) return;
      if (await this.#write()) return;
      const saved = this.#hasAppended ? undefined : this.#saved;
      const headRead = this.#headRead;
      await this.#read();
      if (!saved || this.#texts?.head !== headRead) break;
      for (const save of saved) this.#apply(save);
      this.#saved = saved;
    }
    throw new Overtaken("another instance writes the log");
  }

  #apply([texts, deleteUpTo = 0]: Save): void {
    this.#texts = { key: "", head: "", ...this.#texts, ...texts };
    this.#batches = this.#batches.filter(({ first, count }) => first + count > deleteUpTo);
  }

  async #write(): Promise<boolean> {
    const writer = randomUUID();
    const batches = this.#batches.map((each) => ({ ...each, octets: Base64.format(each.octets) }));
    const texts = this.#texts ?? { key: "", head: "" };
    const json = { version: 1, writer, ...texts, batches };
    const octets = new TextEncoder().encode(JSON.stringify(json));
    let version = await this.#objects.write(stagePath, octets, this.#version);
    if (version === undefined) {
      // The conflict may be with this very write, whose first answer was lost.
      const stored = await this.#objects.read(stagePath);
      if (!stored || parse(stored.octets).writer !== writer) return false;
      version = stored.version;
    }
    this.#keep(version);
    return true;
  }

  #keep(version: string | undefined): void {
    this.#version = version;
    this.#saved = [];
    this.#hasAppended = false;
    this.#headRead = this.#texts?.head;
  }

  async #read(): Promise<void> {
    const stored = await this.#objects.read(stagePath);
    if (!stored) {
      this.#texts = undefined;
      this.#batches = [];
      return this.#keep(undefined);
    }
    const { key, head, named, batches } = parse(stored.octets);
    this.#texts = { key, head, named };
    this.#batches = batches.map(({ octets: text, ...each }) => {
      const octets = Base64.parse(text);
      if (octets) return { ...each, octets };
      throw damaged();
    });
    this.#keep(stored.version);
  }
}

const damaged = (cause?: unknown): LogError =>
  new LogError("form", `${stagePath} of the log is damaged`, cause);

function parse(octets: Uint8Array): z.infer<typeof stageSchema> {
  try {
    return stageSchema.parse(parseJson(octets, JsonBounds.unbounded));
  } catch (error) {
    throw damaged(error);
  }
}

/**
 * The published objects of a log beside its stage. Nothing is published before the stage has what it commits to, and
 * a checkpoint replaces only the one that was read with the stage: a slow process never puts an older one back.
 */
export function publishedObjects(objects: ConditionalObjects, stage: ObjectStage): LogObjects {
  let checkpoint: string | undefined;
  return {
    read: async (path) => {
      const stored = await objects.read(path);
      if (path === checkpointPath) checkpoint = stored?.version;
      return stored?.octets;
    },
    create: async (path, octets) => {
      await stage.commit();
      if ((await objects.write(path, octets, undefined)) !== undefined) return octets;
      return (await objects.read(path))?.octets;
    },
    replace: async (path, octets) => {
      await stage.commit();
      const version = await objects.write(path, octets, checkpoint);
      if (version === undefined) {
        const stored = await objects.read(path);
        // The lost answer to this very write, or another process that has published the same.
        if (!stored || Buffer.compare(stored.octets, octets) !== 0)
          throw new Overtaken("another instance publishes the log");
        checkpoint = stored.version;
      } else checkpoint = version;
    },
  };
}
