/** Octets as tests have them: a Buffer, which compares and prints well. */
export type Octets = Buffer<ArrayBuffer>;

export const hex = (text: string): Octets => Buffer.from(text.replaceAll(" ", ""), "hex");

export const inHex = (octets: Uint8Array): string => Buffer.from(octets).toString("hex");

/** Encodes one DER element. It shares no code with the writer under test. */
export function der(tag: number, ...parts: readonly Uint8Array[]): Octets {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag]), lengthOctets(content.length), content]);
}

function lengthOctets(length: number): Octets {
  if (length < 128) return Buffer.from([length]);
  const digits = length.toString(16);
  const magnitude = hex(digits.length % 2 ? `0${digits}` : digits);
  return Buffer.concat([Buffer.from([0x80 | magnitude.length]), magnitude]);
}

/** A non-negative INTEGER. */
export function derInteger(value: bigint): Octets {
  const digits = value.toString(16);
  const magnitude = hex(digits.length % 2 ? `0${digits}` : digits);
  return der(0x02, ...((magnitude[0] ?? 0) >= 0x80 ? [hex("00")] : []), magnitude);
}

/** An extension of X.509, its OBJECT IDENTIFIER in hexadecimal. */
export const extension = (oid: string, isCritical: boolean, value: Uint8Array): Octets =>
  der(0x30, der(0x06, hex(oid)), hex(isCritical ? "0101ff" : ""), der(0x04, value));

interface Parts {
  readonly tag: number;
  /** The octets before the inner elements: the unused-bits octet of a BIT STRING, else none. */
  readonly prefix: Octets;
  readonly content: Octets;
  readonly length: number;
}

function partsOf(bytes: Octets): Parts {
  const [tag = 0, first = 0] = bytes;
  const count = first < 0x80 ? 0 : first & 0x7f;
  const length = count === 0 ? first : bytes.readUIntBE(2, count);
  const start = 2 + count;
  const prefixLength = tag === 0x03 ? 1 : 0;
  return {
    tag,
    prefix: bytes.subarray(start, start + prefixLength),
    content: bytes.subarray(start + prefixLength, start + length),
    length: start + length,
  };
}

/** The elements inside an element, which may be a BIT STRING or an OCTET STRING. */
export function childrenOf(element: Octets): Octets[] {
  const children: Octets[] = [];
  let { content } = partsOf(element);
  while (content.length > 0) {
    const { length } = partsOf(content);
    children.push(content.subarray(0, length));
    content = content.subarray(length);
  }
  return children;
}

/** The element at a path of child indices. */
export function elementAt(element: Octets, path: readonly number[]): Octets {
  const [index, ...rest] = path;
  if (index === undefined) return element;
  const child = childrenOf(element)[index];
  if (!child) throw new Error(`no element ${index} here`);
  return elementAt(child, rest);
}

/** The content octets of one element. */
export const contentOf = (element: Octets): Octets => partsOf(element).content;

/** Replaces an element by another, by several or by none. */
export type Change = (element: Octets) => Octets;

/** Changes the element at a path and corrects every length above it. */
export function changeAt(element: Octets, path: readonly number[], change: Change): Octets {
  const [index, ...rest] = path;
  if (index === undefined) return change(element);
  const { tag, prefix } = partsOf(element);
  const children = childrenOf(element).map((child, i) =>
    i === index ? changeAt(child, rest, change) : child,
  );
  return der(tag, prefix, ...children);
}

/** An edit in a vector: a path and one of the changes. Octets are in hexadecimal. */
export interface DerEdit {
  readonly at: readonly number[];
  /** Replaces the element by these octets; the empty string removes it. */
  readonly replace?: string;
  /** Appends these octets to the content. */
  readonly append?: string;
  /** Inserts these octets after the element. */
  readonly after?: string;
  /** Replaces the content by this text. */
  readonly text?: string;
  /** Replaces the identifier octet. */
  readonly tag?: number;
  /** Replaces the identifier and length octets. */
  readonly header?: string;
  /** Writes the length in the long form with this many octets. */
  readonly lengthOctets?: number;
  /** Replaces the content by this many SEQUENCEs, each inside the one before. */
  readonly nest?: number;
}

export function applyEdit(element: Octets, edit: DerEdit): Octets {
  return changeAt(element, edit.at, (target) => changed(target, edit));
}

function changed(target: Octets, edit: DerEdit): Octets {
  const { tag, prefix, content } = partsOf(target);
  if (edit.replace !== undefined) return hex(edit.replace);
  if (edit.after !== undefined) return Buffer.concat([target, hex(edit.after)]);
  if (edit.text !== undefined) return der(tag, Buffer.from(edit.text));
  if (edit.nest !== undefined) return der(tag, nested(edit.nest));
  const inside = Buffer.concat([prefix, content, hex(edit.append ?? "")]);
  if (edit.header !== undefined) return Buffer.concat([hex(edit.header), inside]);
  if (edit.lengthOctets === undefined) return der(edit.tag ?? tag, inside);
  const length = Buffer.alloc(edit.lengthOctets);
  length.writeUIntBE(inside.length, 0, edit.lengthOctets);
  return Buffer.concat([Buffer.from([tag, 0x80 | edit.lengthOctets]), length, inside]);
}

const nested = (depth: number): Octets => {
  let inside: Octets = Buffer.alloc(0);
  for (let i = 0; i < depth; i++) inside = der(0x30, inside);
  return inside;
};

/** The octets with one bit changed. */
export function flipBit(octets: Uint8Array, bit: number): Octets {
  const changedOctets = Buffer.from(octets);
  const index = bit >> 3;
  changedOctets[index] = (changedOctets[index] ?? 0) ^ (1 << (bit & 7));
  return changedOctets;
}
