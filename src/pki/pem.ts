import { parseBase64Lines } from "./base64.ts";
import type { Bytes } from "./bytes.ts";

const symbols = new TextEncoder().encode(
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
);
const pad = 0x3d;
const newline = 0x0a;
const octetsPerLine = 48;

const decoder = new TextDecoder();

/**
 * PEM of one value (RFC 7468 §2): lines of 64, LF, a newline at the end, as Go writes it.
 */
export function toPem(label: string, der: Uint8Array): string {
  const lines = Math.ceil(der.length / octetsPerLine);
  const text = new Uint8Array(Math.ceil(der.length / 3) * 4 + lines);
  let written = 0;
  for (let i = 0; i < der.length; i += 3) {
    const group = ((der[i] ?? 0) << 16) | ((der[i + 1] ?? 0) << 8) | (der[i + 2] ?? 0);
    text[written++] = symbols[group >> 18] ?? 0;
    text[written++] = symbols[(group >> 12) & 63] ?? 0;
    text[written++] = i + 1 < der.length ? (symbols[(group >> 6) & 63] ?? 0) : pad;
    text[written++] = i + 2 < der.length ? (symbols[group & 63] ?? 0) : pad;
    if ((i + 3) % octetsPerLine === 0 || i + 3 >= der.length) text[written++] = newline;
  }
  return `-----BEGIN ${label}-----\n${decoder.decode(text)}-----END ${label}-----\n`;
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
    const begin = `-----BEGIN ${label}-----`;
    const end = `-----END ${label}-----`;
    if (!trimmed.startsWith(begin) || !trimmed.endsWith(end)) continue;
    const body = trimmed.slice(begin.length, -end.length);
    if (!/^\r?\n/.test(body) || !body.endsWith("\n")) return undefined;
    const der = parseBase64Lines(body);
    return der?.length ? der : undefined;
  }
  return undefined;
}
