import { toBase64 } from "../../pki/encoding/base64.ts";
import { LogError } from "../log-error.ts";
import type { Hash } from "../merkle.ts";
import { parseSize } from "../note/checkpoint.ts";
import { parseHashes } from "../tlog-proof.ts";

/** A request for a cosignature (C2SP tlog-witness, `add-checkpoint`). */
export interface AddCheckpoint {
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
