import * as z from "zod/mini";
import { JsonBounds, parseJson } from "../../foundation/json.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { Bytes } from "../../pki/encoding/bytes.ts";
import { Frontier } from "../frontier.ts";
import { LogError } from "../log-error.ts";
import type { Tree } from "../merkle.ts";
import { Checkpoint, openCheckpointText } from "../note/checkpoint.ts";
import { formatNote, type NoteSigner } from "../note/note.ts";
import type { VerifierKey } from "../note/verifier-key.ts";
import { Tile } from "../tile.ts";
import { planPublication, type Staged } from "./internal/publication.ts";
import { type LogKeys, type LogObjects, type OpenedLogKey, StagedBatch } from "./storage.ts";

/** What {@link openLog} works with: the log's name, its storage and its keys. */
export interface LogParts extends Staged {
  readonly origin: string;
  readonly objects: LogObjects;
  readonly keys: LogKeys;
  /** Whether an empty log may begin now: otherwise emptied storage would pass for a new log. */
  readonly mayBegin: () => boolean;
}

/** A log whose storage has been verified. */
export interface OpenedLog {
  readonly signer: NoteSigner;
  readonly head: LogHead;
  /** The names of the named entries in the log, which are not appended again. */
  readonly names: readonly string[];
}

/**
 * The error for a log whose storage contradicts itself. The log must not continue until a person has decided what is
 * right.
 */
export class LogRefusal extends Error {
  override readonly name = "LogRefusal";

  constructor(origin: string, why: string, cause?: unknown) {
    super(`the log ${origin} does not go on: ${why}`, { cause });
  }
}

/**
 * Opens a log, or begins a new one, and verifies everything that is staged.
 *
 * @throws LogRefusal if stage and publication contradict each other: one of them was rolled back, lost or damaged,
 *   and continuing could show two histories. Otherwise the errors of the storage.
 */
export async function openLog(parts: LogParts): Promise<OpenedLog> {
  const { stage, objects, keys, origin } = parts;
  const texts = stage.texts();
  const published = await objects.read(Tile.checkpointPath);
  if (!texts) {
    if (published)
      throw new LogRefusal(origin, "a checkpoint is published, but the stage is empty");
    const [scheme] = /^[a-z][a-z0-9.-]*:\/\//i.exec(origin) ?? [];
    // An origin has no scheme (C2SP tlog-checkpoint). An existing log keeps its origin, even one with a scheme, because
    // readers know the log by it.
    if (scheme) throw new LogRefusal(origin, `a new log takes LOG_ORIGIN without ${scheme}`);
    if (!parts.mayBegin())
      throw new LogRefusal(origin, "there is no log, and today is not its inception");
    return beginLog(parts);
  }
  try {
    const { signer, record } = await openKey(keys, texts.key);
    if (record !== texts.key) stage.save({ key: record });
    const head = await openHead(texts.head, signer.key);
    await requirePublished(head, published, signer.key);
    await requireStaged(parts, head, signer.key);
    return { signer, head, names: parseNames(texts.named) };
  } catch (error) {
    if (error instanceof LogError) throw new LogRefusal(origin, error.message, error);
    throw error;
  }
}

async function openKey(keys: LogKeys, record: string): Promise<OpenedLogKey> {
  try {
    return await keys.open(record);
  } catch (error) {
    const why = "the key of the log does not open: compare the value of KEK with the copy of it";
    throw new LogError("content", why, error);
  }
}

async function beginLog({ origin, stage, objects, keys }: LogParts): Promise<OpenedLog> {
  const { signer, record } = await keys.create();
  const frontier = Frontier.empty();
  const signed = await signCheckpoint(signer, origin, frontier);
  const head = { frontier, settled: signed, signed };
  stage.save({ key: record, head: formatHead(head) });
  await objects.replace(Tile.checkpointPath, new TextEncoder().encode(signed));
  return { signer, head, names: [] };
}

const namesSchema = z.array(z.string());

function parseNames(json = "[]"): readonly string[] {
  try {
    return namesSchema.parse(parseJson(json, JsonBounds.unbounded));
  } catch (error) {
    throw new LogError("form", "the names of the staged entries are damaged", error);
  }
}

/** The signed checkpoint of a tree. Its size and root must be in the stage before it leaves the process. */
export async function signCheckpoint(
  signer: NoteSigner,
  origin: string,
  tree: Frontier,
): Promise<string> {
  const text = Checkpoint.format({ origin, size: tree.size, root: tree.root() });
  return formatNote({ text, signatures: [await signer.sign(text)] });
}

/** Refuses a published checkpoint that is neither the settled nor the signed one: that shows a rollback. @throws LogError */
async function requirePublished(
  { settled, signed }: LogHead,
  published: Uint8Array | undefined,
  key: VerifierKey,
): Promise<void> {
  const known = [await openCheckpointText(settled, key), await openCheckpointText(signed, key)];
  if (!published) {
    // None is published yet, if the first publication was interrupted.
    if (known.some(({ size }) => size === 0)) return;
    throw new LogError("missing", "the published checkpoint is gone");
  }
  const found = await openCheckpointText(new TextDecoder().decode(published), key);
  if (known.some((each) => isSameTree(each, found))) return;
  const sizes = known.map(({ size }) => size).join(" or ");
  throw new LogError(
    "consistency",
    `a checkpoint of ${found.size} entries is published, and the stage knows ${sizes}: one was rolled back`,
  );
}

function isSameTree(one: Tree, other: Tree): boolean {
  return one.size === other.size && Bytes.equal(one.root, other.root);
}

/**
 * Requires that the staged entries extend the settled tree to the signed one, and that all staged tiles can be read.
 * @throws LogError
 */
async function requireStaged(staged: Staged, head: LogHead, key: VerifierKey): Promise<void> {
  const signed = await openCheckpointText(head.signed, key);
  const { frontier } = await planPublication(staged, head.frontier, signed.size);
  if (!Bytes.equal(frontier.root(), signed.root)) {
    throw new LogError("content", "the staged entries are not those of the signed checkpoint");
  }
  // The tiles beyond the signed tree are read as well, so that damage shows now.
  let settled = frontier;
  for (;;) {
    const next = (await planPublication(staged, settled)).frontier;
    if (next.size === settled.size) return;
    settled = next;
  }
}

/**
 * The frontier of the tree of all staged entries. A tree of more than `maximumSize` entries is cut to that size, but never
 * below the tree that is completely published. Nothing is verified.
 *
 * @throws LogError
 */
export function stagedTree(
  head: string,
  batches: readonly StagedBatch[],
  maximumSize: number = Number.POSITIVE_INFINITY,
): Frontier {
  const tree = frontierOf(parseForm(head));
  for (const batch of batches) {
    for (const [i, hash] of StagedBatch.hashes(batch).entries()) {
      if (batch.first + i === tree.size && tree.size < maximumSize) tree.append(hash);
    }
  }
  return tree;
}

/** The tree that a log has committed to. */
interface LogHead {
  /** The frontier of the tree whose objects are all published. */
  readonly frontier: Frontier;
  /** The signed checkpoint of that tree. */
  readonly settled: string;
  /**
   * The newest checkpoint that the log has signed: the settled one, or one whose objects may be
   * published in part. Its tree must be finished before another one is signed.
   */
  readonly signed: string;
}

const headSchema = z.strictObject({
  version: z.literal(1),
  size: z.int().check(z.minimum(0)),
  frontier: z.string(),
  settled: z.string(),
  signed: z.string(),
});

type HeadForm = z.infer<typeof headSchema>;

/** Serializes the head of a log for the stage. */
export function formatHead({ frontier, settled, signed }: LogHead): string {
  const { size } = frontier;
  return JSON.stringify({
    version: 1,
    size,
    frontier: Base64.format(frontier.toBytes()),
    settled,
    signed,
  } satisfies HeadForm);
}

/** Reads a head, and checks it by the log's own signatures. @throws LogError */
async function openHead(text: string, key: VerifierKey): Promise<LogHead> {
  const { settled, signed, ...edge } = parseForm(text);
  const { size } = edge;
  const frontier = frontierOf(edge);
  const checkpoint = await openCheckpointText(settled, key);
  await openCheckpointText(signed, key);
  if (checkpoint.size === size && Bytes.equal(checkpoint.root, frontier.root())) {
    return { frontier, settled, signed };
  }
  throw damaged();
}

function frontierOf({ size, frontier }: Pick<HeadForm, "size" | "frontier">): Frontier {
  const octets = Base64.parse(frontier);
  if (octets) return Frontier.fromBytes(size, octets);
  throw damaged();
}

function parseForm(text: string): HeadForm {
  try {
    return headSchema.parse(parseJson(text));
  } catch (error) {
    throw new LogError("form", "the head of the log is damaged", error);
  }
}

const damaged = (): LogError =>
  new LogError("content", "the edge of the tree is not that of the checkpoint");
