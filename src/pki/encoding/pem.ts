import { parseBase64Lines, toBase64 } from "./base64.ts";
import type { Bytes } from "./bytes.ts";

const symbolsPerLine = 64;

/** The encapsulation boundaries of a label (RFC 7468 §2). */
interface Boundaries {
  readonly begin: string;
  readonly end: string;
}

const boundaries = new Map<string, Boundaries>();

/** The boundaries of a label, made once: this code knows a few labels, all of its own. */
function boundariesOf(label: string): Boundaries {
  const known = boundaries.get(label);
  if (known) return known;
  const made = { begin: `-----BEGIN ${label}-----`, end: `-----END ${label}-----` };
  boundaries.set(label, made);
  return made;
}

/**
 * PEM of one value (RFC 7468 §2) as Go's `encoding/pem` writes it: lines of 64 symbols, each with LF, the
 * last line too.
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
 * The DER in exactly one PEM block with one of these labels and with nothing but white space around it.
 *
 * RFC 7468 §2 lets parsers skip other text. This one refuses it, because another parser may read it.
 *
 * @returns `undefined` for anything else.
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

/**
 * As Go and OpenSSL read a block: its first and its last line stand alone. A line ends with LF; JavaScript's
 * own `^`, `$` and `\s` also know separators of other alphabets, and a CR alone.
 */
const blockOf = (label: string): RegExp =>
  new RegExp(
    String.raw`(?<![^\n])-----BEGIN ${label}-----[ \t]*\r?\n((?:[A-Za-z0-9+/= \t\r\n]*\n)?)-----END ${label}-----[ \t]*\r?(?![^\n])`,
    "g",
  );

const certificateBlock = blockOf("CERTIFICATE");
const crlBlock = blockOf("X509 CRL");

/**
 * The base64 of every certificate in a text, each on one line. It skips text between the blocks
 * (RFC 7468 §2), and does not look whether a block holds a certificate: it may be empty.
 */
export function certificateBlocks(text: string): readonly string[] {
  return bodiesOf(text, certificateBlock);
}

/** {@link certificateBlocks} for CRLs. */
export function crlBlocks(text: string): readonly string[] {
  return bodiesOf(text, crlBlock);
}

function bodiesOf(text: string, block: RegExp): readonly string[] {
  return [...text.matchAll(block)].map(([, lines = ""]) => lines.replace(/\s/g, ""));
}

/** Whether a text is blocks of base64, at least one, with nothing but white space around them. */
export function isCertificateBlocks(text: string): boolean {
  const rest = text.replace(certificateBlock, "");
  return rest !== text && rest.trim() === "" && certificateBlocks(text).every(Boolean);
}

function startsOnNewLine(body: string): boolean {
  return body.startsWith("\n") || body.startsWith("\r\n");
}
