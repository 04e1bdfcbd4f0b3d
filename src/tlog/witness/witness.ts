import { toBase64 } from "../../pki/encoding/base64.ts";
import { bytesEqual } from "../../pki/encoding/bytes.ts";
import { LogError } from "../log-error.ts";
import { emptyRoot, type Hash, type Tree } from "../merkle.ts";
import { type Checkpoint, type Cosigner, openCheckpoint, parseSize } from "../note/checkpoint.ts";
import { formatSignature, parseNote, type SignedNote } from "../note/note.ts";
import type { VerifierKey } from "../note/verifier-key.ts";
import { parseHashes, verifyConsistency } from "../proof.ts";

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

export interface WitnessAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
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

/** A request for a cosignature (C2SP tlog-witness, `add-checkpoint`). */
interface AddCheckpoint {
  /** The size of the last checkpoint that the witness has cosigned. */
  readonly older: number;
  readonly proof: readonly Hash[];
  /** The signed checkpoint, verbatim. */
  readonly checkpoint: string;
}

/** The content type of the size in an answer with status 409. */
export const sizeContentType = "text/x.tlog.size";

export const maximumRequestOctets: number = 64 * 1024;

export function formatAddCheckpoint({ older, proof, checkpoint }: AddCheckpoint): string {
  return [`old ${older}`, ...proof.map(toBase64), "", checkpoint].join("\n");
}

/** @throws LogError `form` */
export function parseAddCheckpoint(text: string): AddCheckpoint {
  const end = text.indexOf("\n\n");
  const [first = "", ...lines] = text.slice(0, Math.max(end, 0)).split("\n");
  if (!first.startsWith("old ")) throw new LogError("form", "not a request for a cosignature");
  const older = parseSize(first.slice(4));
  return { older, proof: parseHashes(lines), checkpoint: text.slice(end + 2) };
}
