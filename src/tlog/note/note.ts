import { concatBytes } from "../../foundation/octets.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { type Bytes, Hex } from "../../pki/encoding/bytes.ts";
import { LogError } from "../log-error.ts";
import { hasControls, isKeyName, type VerifierKey } from "./verifier-key.ts";

/** A signature line of a note: whose it claims to be, and its octets after the key id. */
export interface NoteSignature {
  readonly name: string;
  readonly keyId: Bytes;
  readonly signature: Bytes;
}

/** A text and its signatures (C2SP signed-note). Nobody has verified them. */
export interface SignedNote {
  /** Ends with a newline. */
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

/** A key that signs notes. */
export interface NoteSigner {
  readonly key: VerifierKey;
  readonly sign: (text: string) => Promise<NoteSignature>;
}

const maximumLength = 1_000_000;
/** C2SP requires readers to accept 16; a checkpoint with many witnesses has more. */
const maximumSignatures = 100;
const separator = "\n\n";
/** Em dash. */
const dash = "\u2014";

/**
 * Parses a signed note (C2SP signed-note) without verifying its signatures.
 * @throws LogError `form` if it is malformed, too long, or has too many signatures.
 */
export function parseNote(whole: string): SignedNote {
  const end = whole.lastIndexOf(separator);
  if (whole.length > maximumLength || end < 0 || !whole.endsWith("\n") || hasControls(whole)) {
    throw malformed("not a signed note");
  }
  const lines = whole.slice(end + separator.length, -1).split("\n");
  if (lines.length > maximumSignatures) throw malformed("a note with too many signatures");
  return { text: whole.slice(0, end + 1), signatures: lines.map(parseSignature) };
}

/** One signature line. @throws LogError `form` */
export function parseSignature(line: string): NoteSignature {
  const [start, name = "", base64 = "", ...more] = line.split(" ");
  const octets = Base64.parse(base64);
  if (start !== dash || more.length > 0 || !isKeyName(name) || !octets || octets.length < 5) {
    throw malformed("not the signature line of a note");
  }
  return { name, keyId: octets.slice(0, 4), signature: octets.slice(4) };
}

/** Serializes a signed note (C2SP signed-note). */
export function formatNote({ text, signatures }: SignedNote): string {
  return `${text}\n${signatures.map((each) => `${formatSignature(each)}\n`).join("")}`;
}

/** Serializes one signature line of a note, without its line feed. */
export function formatSignature({ name, keyId, signature }: NoteSignature): string {
  return `${dash} ${name} ${Base64.format(concatBytes(keyId, signature))}`;
}

/** Whether the signature claims to be by this key. Nothing is verified. */
export function claims(signature: NoteSignature, { name, keyId }: VerifierKey): boolean {
  return signature.name === name && Hex.format(signature.keyId) === Hex.format(keyId);
}

function malformed(detail: string): LogError {
  return new LogError("form", detail);
}
