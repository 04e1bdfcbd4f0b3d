import * as z from "zod/mini";
import { parseBase64, toBase64 } from "../../pki/encoding/base64.ts";
import { bytesEqual } from "../../pki/encoding/bytes.ts";
import { Frontier } from "../frontier.ts";
import { LogError } from "../log-error.ts";
import { openCheckpointText } from "../note/checkpoint.ts";
import type { VerifierKey } from "../note/verifier-key.ts";

/** The tree that a log has committed to. */
export interface LogHead {
  /** The edge of the tree that is published whole. */
  readonly frontier: Frontier;
  /** The signed checkpoint of that tree. */
  readonly settled: string;
  /**
   * The newest checkpoint that the log has signed: the settled one, or one whose objects may be
   * published in part. Its tree must be finished before another one is signed.
   */
  readonly signed: string;
}

const headForm = z.strictObject({
  version: z.literal(1),
  size: z.int().check(z.minimum(0)),
  frontier: z.string(),
  settled: z.string(),
  signed: z.string(),
});

export function formatHead({ frontier, settled, signed }: LogHead): string {
  const { size } = frontier;
  return JSON.stringify({
    version: 1,
    size,
    frontier: toBase64(frontier.toBytes()),
    settled,
    signed,
  } satisfies z.infer<typeof headForm>);
}

/** Reads a head, and checks it by the log's own signatures. @throws LogError */
export async function openHead(text: string, key: VerifierKey): Promise<LogHead> {
  const { size, frontier: base64, settled, signed } = parseForm(text);
  const octets = parseBase64(base64);
  if (!octets) throw damaged();
  const frontier = Frontier.fromBytes(size, octets);
  const checkpoint = await openCheckpointText(settled, key);
  await openCheckpointText(signed, key);
  if (checkpoint.size === size && bytesEqual(checkpoint.root, frontier.root())) {
    return { frontier, settled, signed };
  }
  throw damaged();
}

function parseForm(text: string): z.infer<typeof headForm> {
  try {
    return headForm.parse(JSON.parse(text));
  } catch (error) {
    throw new LogError("form", "the head of the log is damaged", error);
  }
}

const damaged = (): LogError =>
  new LogError("content", "the edge of the tree is not that of the checkpoint");
