import { Base64 } from "./base64.ts";
import type { Bytes } from "./bytes.ts";

/** PEM (RFC 7468). */
export const Pem = {
  /**
   * PEM of one value (RFC 7468 §2) as Go's `encoding/pem` writes it: lines of 64 symbols, each with LF, the
   * last line too.
   */
  format(label: string, der: Uint8Array): string {
    const symbols = Base64.format(der);
    let lines = "";
    for (let i = 0; i < symbols.length; i += 64) lines += `${symbols.slice(i, i + 64)}\n`;
    return `-----BEGIN ${label}-----\n${lines}-----END ${label}-----\n`;
  },

  /**
   * The DER in exactly one PEM block with one of these labels and with nothing but white space around it.
   *
   * RFC 7468 §2 lets parsers skip other text. This one refuses it, because another parser may read it.
   *
   * @returns `undefined` for anything else.
   */
  parse(text: string, labels: readonly string[]): Bytes | undefined {
    const [, label = "", body = ""] = onlyBlock.exec(text.trim()) ?? [];
    const der = labels.includes(label) ? Base64.parseLines(body) : undefined;
    return der?.length ? der : undefined;
  },

  /**
   * The blocks of a text, in order. Other text is skipped (RFC 7468 §2), whatever its encoding is. As Go and OpenSSL
   * read a block, its first and its last line stand alone; a line ends with LF. Where they would skip a block, this
   * reader refuses the text: three roots, of which one is damaged, must not become two.
   *
   * @throws PemError for a damaged block, more blocks than the maximum, and UTF-16.
   */
  blocks(text: string, maximum: number = usualMaximum): readonly PemBlock[] {
    if (text.includes("B\0E\0G\0I\0N")) throw new PemError("is text in UTF-16: save it as UTF-8");
    const blocks: PemBlock[] = [];
    for (let at = text.indexOf(begin); at >= 0; at = text.indexOf(begin, at)) {
      if (blocks.length === maximum) throw new PemError(`has more than ${maximum} PEM blocks`);
      const label = beginLine.exec(lineAt(text, at))?.[1];
      const bodyAt = text.indexOf("\n", at) + 1;
      const endAt = text.indexOf(end, bodyAt);
      const last = endAt < 0 ? "" : lineAt(text, endAt);
      const body = text.slice(bodyAt, endAt);
      if (label === undefined || endLine.exec(last)?.[1] !== label || body.includes(begin)) {
        throw new PemError(`has no proper end of PEM block ${blocks.length + 1}`);
      }
      blocks.push({ label, body });
      at = endAt + last.length;
    }
    return blocks;
  },

  /**
   * The base64 of every certificate in a text, each on one line; none where {@link Pem.blocks} refuses the text. It does
   * not check that a block contains a certificate: a block may even be empty.
   */
  certificates(text: string): readonly string[] {
    return bodiesOf(text, "CERTIFICATE");
  },

  /** {@link Pem.certificates} for CRLs. */
  crls(text: string): readonly string[] {
    return bodiesOf(text, "X509 CRL");
  },

  /** The base64 of a block on one line. */
  symbols: ({ body }: PemBlock): string => body.replace(/[ \t\r\n]/g, ""),

  /** Whether a text has at least one block, and every block has the label of a certificate and base64. */
  isCertificates(text: string): boolean {
    const blocks = blocksOrNone(text);
    const isOne = (block: PemBlock): boolean =>
      block.label === "CERTIFICATE" && Boolean(Base64.parse(Pem.symbols(block))?.length);
    return blocks.length > 0 && blocks.every(isOne);
  },
};

/** A block of PEM, not decoded. */
export interface PemBlock {
  readonly label: string;
  /** The lines between its boundaries. */
  readonly body: string;
}

/** The error for a text from which no block is read. Its message says why, as a predicate that follows the name of the text. */
export class PemError extends Error {
  override readonly name = "PemError";
}

const onlyBlock = /^-----BEGIN ([A-Z0-9 ]+)-----\r?\n([^-]*)\n-----END \1-----$/;
const begin = "-----BEGIN ";
const end = "-----END ";
const beginLine = /^-----BEGIN ([A-Z0-9 ]{1,40})-----[ \t]*\r?$/;
const endLine = /^-----END ([A-Z0-9 ]{1,40})-----[ \t]*\r?$/;

/** The bundles of operating systems have fewer certificates. */
const usualMaximum = 1_000;

/** The line that begins at this index; empty if none does. */
function lineAt(text: string, at: number): string {
  if (at > 0 && text[at - 1] !== "\n") return "";
  const lineEnd = text.indexOf("\n", at);
  return text.slice(at, lineEnd < 0 ? undefined : lineEnd);
}

function bodiesOf(text: string, label: string): readonly string[] {
  return blocksOrNone(text).flatMap((block) => (block.label === label ? [Pem.symbols(block)] : []));
}

function blocksOrNone(text: string): readonly PemBlock[] {
  try {
    return Pem.blocks(text);
  } catch (error) {
    if (error instanceof PemError) return [];
    throw error;
  }
}
