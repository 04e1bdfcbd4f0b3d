import { type Bytes, Hex } from "./bytes.ts";

/** Bytes that are not the expected DER (X.690 §10). Callers turn it into a refusal of their own. */
export class DerError extends Error {
  override readonly name = "DerError";
}

/** The identifier octets of X.509 and PKCS#10. All have the low-tag-number form. */
export const Tag = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  objectIdentifier: 0x06,
  utf8String: 0x0c,
  printableString: 0x13,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
  /** `[number]`, primitive. */
  contextPrimitive: (number: number): number => 0x80 | number,
  /** `[number]`, constructed. */
  contextConstructed: (number: number): number => 0xa0 | number,
} as const;

/** A BOOLEAN that is TRUE, for which DER has one octet (X.690 §11.1). */
export const derTrue: Bytes = Hex.parseLiteral("0101ff");

const constructedBit = 0x20;
const maximumDepth = 16;

/**
 * A cursor over the elements of one DER value. It accepts definite, minimal lengths and tags of one octet.
 * It returns views into the bytes that it was given and never copies.
 *
 * @throws DerError from every method, for every departure from DER.
 */
export class DerReader {
  readonly #bytes: Bytes;
  readonly #end: number;
  #position: number;

  constructor(bytes: Bytes, start = 0, end: number = bytes.length) {
    this.#bytes = bytes;
    this.#position = start;
    this.#end = end;
  }

  /** Whether nothing is left. */
  get isDone(): boolean {
    return this.#position === this.#end;
  }

  /** The number of octets that are left. */
  get length(): number {
    return this.#end - this.#position;
  }

  /** Creates a second cursor at the same position. */
  fork(): DerReader {
    return new DerReader(this.#bytes, this.#position, this.#end);
  }

  /** The octets that are left. */
  rest(): Bytes {
    return this.#bytes.subarray(this.#position, this.#end);
  }

  /** Whether the next element has this tag. False at the end. */
  nextIs(tag: number): boolean {
    return !this.isDone && this.#bytes[this.#position] === tag;
  }

  /** Reads the next element, and returns its content octets. @throws DerError for another tag. */
  content(tag: number): Bytes {
    const start = this.#contentStart(tag);
    return this.#bytes.subarray(start, this.#position);
  }

  /** Reads the next element, and returns it whole: identifier, length and content. @throws DerError for another tag. */
  element(tag: number): Bytes {
    const start = this.#position;
    this.#contentStart(tag);
    return this.#bytes.subarray(start, this.#position);
  }

  /** Reads the next element, and returns a reader of its content. @throws DerError for another tag. */
  enter(tag: number): DerReader {
    const start = this.#contentStart(tag);
    return new DerReader(this.#bytes, start, this.#position);
  }

  /** {@link enter} for the only element that is left. @throws DerError also if bytes come after it. */
  enterLast(tag: number): DerReader {
    const content = this.enter(tag);
    this.finish();
    return content;
  }

  /** Reads a BIT STRING, and returns its octets. @throws DerError for one with unused bits. */
  bitStringOctets(): Bytes {
    const start = this.#contentStart(Tag.bitString);
    if (start === this.#position || this.#bytes[start] !== 0) {
      throw new DerError("BIT STRING with unused bits");
    }
    return this.#bytes.subarray(start + 1, this.#position);
  }

  /** Reads a non-negative INTEGER, and returns its magnitude without the sign octet. Zero is one zero octet. */
  unsignedInteger(): Bytes {
    const start = this.#magnitudeStart();
    return this.#bytes.subarray(start, this.#position);
  }

  /** Copies the magnitude of a non-negative INTEGER into `target`, right-aligned between `begin` and `end`. */
  unsignedIntegerInto(target: Bytes, begin: number, end: number): void {
    let from = this.#magnitudeStart();
    let to = end - (this.#position - from);
    if (to < begin) throw new DerError("an INTEGER that is too large");
    while (to < end) target[to++] = this.#bytes[from++] ?? 0;
  }

  /** Whether the next bytes are exactly these. The cursor stays. */
  isAt(expected: Bytes): boolean {
    const bytes = this.#bytes;
    const start = this.#position;
    if (expected.length > this.#end - start) return false;
    for (let i = 0; i < expected.length; i++) if (bytes[start + i] !== expected[i]) return false;
    return true;
  }

  /** Whether these are all bytes that are left. The cursor stays. */
  is(expected: Bytes): boolean {
    return this.length === expected.length && this.isAt(expected);
  }

  /** Skips the next element. @returns Whether its content is this. @throws DerError for another tag. */
  contentIs(tag: number, expected: Bytes): boolean {
    return this.enter(tag).is(expected);
  }

  /** Skips the next bytes and requires them to be exactly these. */
  literal(expected: Bytes): void {
    if (!this.isAt(expected)) throw new DerError("an element differs from the only one allowed");
    this.#position += expected.length;
  }

  /** Skips the next element. @throws DerError for another tag. */
  skip(tag: number): void {
    this.#contentStart(tag);
  }

  /**
   * Skips everything that is left and requires DER at every level of it.
   *
   * @param look Sees the tag and the content of each primitive value.
   */
  skipAll(look?: (tag: number, content: DerReader) => void, depth = 0): void {
    if (depth > maximumDepth) throw new DerError("nested too deep");
    while (!this.isDone) {
      const [tag, content] = this.any();
      if (tag & constructedBit) content.skipAll(look, depth + 1);
      else look?.(tag, content);
    }
  }

  /** The next element, of whatever type: its tag, and a reader of its content. */
  any(): readonly [tag: number, content: DerReader] {
    const tag = this.#bytes[this.#position] ?? 0;
    if (!isDerTag(tag)) throw new DerError("a tag that DER does not have");
    return [tag, this.enter(tag)];
  }

  /** The next octet of a content that has no elements. */
  octet(): number {
    if (this.isDone) throw new DerError("ends too early");
    return this.#bytes[this.#position++] ?? 0;
  }

  /** Requires that nothing is left. */
  finish(): void {
    if (!this.isDone) throw new DerError("bytes after the last element");
  }

  #magnitudeStart(): number {
    const start = this.#contentStart(Tag.integer);
    const length = this.#position - start;
    const first = this.#bytes[start] ?? 0;
    const second = this.#bytes[start + 1] ?? 0;
    if (length === 0) throw new DerError("INTEGER without content");
    if (first >= 0x80) throw new DerError("INTEGER is negative");
    if (first > 0 || length === 1) return start;
    if (second < 0x80) throw new DerError("INTEGER is not minimal");
    return start + 1;
  }

  #contentStart(tag: number): number {
    if (this.octet() !== tag) throw new DerError("an element of another type");
    if ((tag & 0x1f) === 0x1f) throw new DerError("tag of more than one octet");
    const length = this.#length();
    const start = this.#position;
    if (length > this.#end - start) throw new DerError("an element longer than its container");
    this.#position = start + length;
    return start;
  }

  #length(): number {
    const first = this.octet();
    if (first < 0x80) return first;
    const count = first & 0x7f;
    if (count === 0) throw new DerError("indefinite length");
    if (count > 3) throw new DerError("length of more than three octets");
    let length = 0;
    for (let i = 0; i < count; i++) length = length * 256 + this.octet();
    const isMinimal = length >= 0x80 && length >= 1 << (8 * (count - 1));
    if (!isMinimal) throw new DerError("length is not minimal");
    return length;
  }
}

/** X.690 §10.2: of the universal types, SEQUENCE and SET are constructed and all others primitive. */
function isDerTag(tag: number): boolean {
  const isUniversal = (tag & 0xc0) === 0;
  const isCollection = (tag & 0x1f) === 0x10 || (tag & 0x1f) === 0x11;
  const isConstructed = (tag & constructedBit) !== 0;
  return !isUniversal || (tag !== 0 && isConstructed === isCollection);
}
