import { parseBase64Lines, toBase64 } from "./base64.ts";
import type { Bytes } from "./bytes.ts";

const symbolsPerLine = 64;

/** The lines around a value. */
interface Boundaries {
  readonly begin: string;
  readonly end: string;
}

const boundaries = new Map<string, Boundaries>();

/** Put together once for each label, of which this code knows a few. */
function boundariesOf(label: string): Boundaries {
  const known = boundaries.get(label);
  if (known) return known;
  const made = { begin: `-----BEGIN ${label}-----`, end: `-----END ${label}-----` };
  boundaries.set(label, made);
  return made;
}

/**
 * PEM of one value (RFC 7468 §2): lines of 64, LF, a newline at the end, as Go writes it.
 */
export function toPem(label: string, der: Uint8Array): string {
  const { begin, end } = boundariesOf(label);
  const symbols = toBase64(der);
  let lines = "";
  for (let i = 0; i < symbols.length; i += symbolsPerLine) {
    lines += `${symbols.slice(i, i + symbolsPerLine)}\n`;
  }
  return `${begin}\n${lines}${end}\n`;
}

/**
 * The DER inside exactly one PEM block with one of these labels, and nothing but white space around it.
 *
 * Stricter than RFC 7468, which lets parsers skip text: what is skipped here, another parser
 * may read.
 *
 * @returns `undefined` when the text is not that.
 */
export function parsePem(text: string, labels: readonly string[]): Bytes | undefined {
  const trimmed = text.trim();
  for (const label of labels) {
    const { begin, end } = boundariesOf(label);
    if (!trimmed.startsWith(begin) || !trimmed.endsWith(end)) continue;
    const body = trimmed.slice(begin.length, -end.length);
    if (!startsOnNewLine(body) || !body.endsWith("\n")) return undefined;
    const der = parseBase64Lines(body);
    return der?.length ? der : undefined;
  }
  return undefined;
}

function startsOnNewLine(body: string): boolean {
  return body.startsWith("\n") || body.startsWith("\r\n");
}
