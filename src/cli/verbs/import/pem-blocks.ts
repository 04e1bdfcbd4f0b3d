import { OperatorError } from "../../../foundation/errors.ts";
import { parseBase64 } from "../../../pki/encoding/base64.ts";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import type { Source } from "./plugged-in-material.ts";

/** One block of a PEM file. */
export interface PemBlock {
  readonly label: string;
  /** Whether its headers mark it as encrypted (RFC 1421 §4.6.1.1); then `der` is empty. */
  readonly isEncrypted: boolean;
  readonly der: Bytes;
}

const boundary = /-----(BEGIN|END) ([A-Z0-9 ]{1,40})-----/g;
const header = /^[A-Za-z-]{1,40}:.*$/gm;

/**
 * The blocks of a PEM file, which may have other text between them, such as OpenSSL's `-text`. An
 * operator's files are parsed as leniently as Go parses them; a caller's PEM never is.
 *
 * @throws OperatorError for a block without an end, and for a body that is not base64.
 */
export function pemBlocks({ name, text }: Source): readonly PemBlock[] {
  const boundaries = [...text.matchAll(boundary)];
  const blocks: PemBlock[] = [];
  for (let i = 0; i < boundaries.length; i += 2) {
    const [begin, end] = [boundaries[i], boundaries[i + 1]];
    const isBlock = begin?.[1] === "BEGIN" && end?.[1] === "END" && begin[2] === end[2];
    if (!isBlock)
      throw new OperatorError(`${name}: PEM block ${blocks.length + 1} has no proper end`);
    const body = text.slice(begin.index + begin[0].length, end.index);
    blocks.push(blockOf(begin[2] ?? "", body, `${name}: PEM block ${blocks.length + 1}`));
  }
  return blocks;
}

function blockOf(label: string, body: string, name: string): PemBlock {
  if (/^Proc-Type:.*ENCRYPTED/m.test(body)) {
    return { label, isEncrypted: true, der: new Uint8Array(0) };
  }
  const der = parseBase64(body.replace(header, "").replaceAll(/\s/g, ""));
  if (!der || der.length === 0) throw new OperatorError(`${name} is not base64`);
  return { label, isEncrypted: false, der };
}
