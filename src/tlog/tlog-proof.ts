import { parseBase64, toBase64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { LogError } from "./log-error.ts";
import { type Hash, hashOctets } from "./merkle.ts";
import { parseSize } from "./note/checkpoint.ts";

/** An entry's proof that needs no connection to its log (C2SP tlog-proof). */
export interface LogProof {
  readonly index: number;
  readonly hashes: readonly Hash[];
  /** The signed checkpoint, with its cosignatures, verbatim. */
  readonly checkpoint: string;
  /** An addition by the maker of the proof. Nothing authenticates it. */
  readonly extra?: Bytes | undefined;
}

const header = "c2sp.org/tlog-proof@v1";
/** An entry in the extra line may have 64 KiB. */
const maximumLength = 256 * 1024;
const maximumHashes = 63;

export function formatLogProof({ index, hashes, checkpoint, extra }: LogProof): string {
  const extraLines = extra ? [`extra ${toBase64(extra)}`] : [];
  const lines = [header, ...extraLines, `index ${index}`, ...hashes.map(toBase64), ""];
  return [...lines, checkpoint].join("\n");
}

/** @throws LogError `form` */
export function parseLogProof(text: string): LogProof {
  const end = text.indexOf("\n\n");
  const [first, ...lines] = text.slice(0, Math.max(end, 0)).split("\n");
  if (text.length > maximumLength || first !== header) throw malformed();
  const extra = lines[0]?.startsWith("extra ")
    ? requireBase64(lines.shift()?.slice(6) ?? "")
    : undefined;
  const [indexLine = "", ...hashLines] = lines;
  if (!indexLine.startsWith("index ")) throw malformed();
  return {
    index: parseSize(indexLine.slice(6)),
    hashes: parseHashes(hashLines),
    checkpoint: text.slice(end + 2),
    ...(extra && { extra }),
  };
}

/** The hashes of a proof, one on each line. @throws LogError `form` */
export function parseHashes(lines: readonly string[]): readonly Hash[] {
  if (lines.length > maximumHashes) throw malformed();
  return lines.map((line) => {
    const hash = requireBase64(line);
    if (hash.length !== hashOctets) throw malformed();
    return hash;
  });
}

function requireBase64(text: string): Hash {
  const octets = parseBase64(text);
  if (octets) return octets;
  throw malformed();
}

function malformed(): LogError {
  return new LogError("form", "not a proof of a log");
}
