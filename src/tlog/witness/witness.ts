import { bytesEqual } from "../../pki/encoding/bytes.ts";
import { LogError } from "../log-error.ts";
import { emptyRoot } from "../merkle.ts";
import { type Checkpoint, openCheckpoint } from "../note/checkpoint.ts";
import type { Cosigner } from "../note/cosignature.ts";
import { formatSignature, parseNote, type SignedNote } from "../note/note.ts";
import type { VerifierKey } from "../note/verifier-key.ts";
import { type Tree, verifyConsistency } from "../proof.ts";
import { type AddCheckpoint, parseAddCheckpoint, sizeContentType } from "./add-checkpoint.ts";
import type { WitnessAnswer } from "./ask-witnesses.ts";

/** The memory of a witness: the last tree that it cosigned for each log. */
export interface WitnessMemory {
  readonly latest: (origin: string) => Tree | undefined;
  /**
   * Replaces the last tree, if it still has this size, in one atomic step; durable when it returns.
   *
   * @returns Whether it did.
   */
  readonly advance: (origin: string, from: number, to: Tree) => boolean;
}

/** A witness: it never cosigns two trees of a log that contradict each other. */
export interface Witness {
  /** The logs that it knows, by their keys. */
  readonly logs: readonly VerifierKey[];
  readonly memory: WitnessMemory;
  readonly cosigner: Cosigner;
}

const answer = (status: number, body = "", contentType = "text/plain"): WitnessAnswer => ({
  status,
  contentType,
  body,
});

/** Answers `add-checkpoint` (C2SP tlog-witness). */
export async function cosignOrRefuse(
  text: string,
  { logs, memory, cosigner }: Witness,
  now: Date,
): Promise<WitnessAnswer> {
  const parsed = parseRequest(text);
  if (!parsed) return answer(400);
  const { asked, note } = parsed;
  const key = logs.find(({ name }) => note.text.startsWith(`${name}\n`));
  if (!key) return answer(404);
  const checkpoint = await openIfSigned(note, key);
  if (!checkpoint) return answer(403);
  if (asked.older > checkpoint.size) return answer(400);
  const latest = memory.latest(key.name) ?? { size: 0, root: emptyRoot };
  if (asked.older !== latest.size) return conflict(latest.size);
  if (!isExtension(latest, checkpoint, asked)) return answer(422);
  if (!memory.advance(key.name, latest.size, checkpoint)) {
    return conflict(memory.latest(key.name)?.size ?? 0);
  }
  return answer(200, `${formatSignature(await cosigner.cosign(note.text, now))}\n`);
}

const conflict = (size: number): WitnessAnswer => answer(409, `${size}\n`, sizeContentType);

interface ParsedRequest {
  readonly asked: AddCheckpoint;
  readonly note: SignedNote;
}

function parseRequest(text: string): ParsedRequest | undefined {
  try {
    const asked = parseAddCheckpoint(text);
    return { asked, note: parseNote(asked.checkpoint) };
  } catch (error) {
    if (error instanceof LogError) return undefined;
    throw error;
  }
}

async function openIfSigned(note: SignedNote, key: VerifierKey): Promise<Checkpoint | undefined> {
  try {
    return await openCheckpoint(note, key);
  } catch (error) {
    if (error instanceof LogError) return undefined;
    throw error;
  }
}

function isExtension(latest: Tree, checkpoint: Tree, { proof }: AddCheckpoint): boolean {
  if (checkpoint.size === 0 && !bytesEqual(checkpoint.root, emptyRoot)) return false;
  try {
    verifyConsistency(latest, checkpoint, proof);
    return true;
  } catch (error) {
    if (error instanceof LogError) return false;
    throw error;
  }
}
