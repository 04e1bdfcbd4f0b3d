const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const bracket = 0x5b;
const backslash = 0x5c;
const brace = 0x7b;

/** The largest JSON text that is parsed. A larger one is refused unparsed. */
export interface JsonBounds {
  /** The longest text, in octets of UTF-8. */
  readonly octets: number;
  /** The most `{`, `[` and `,` outside of strings. Each takes up to 180 octets of memory when parsed, 33 in `[{},{}]`. */
  readonly values: number;
}

/** Chooses bounds, and refuses texts beyond them. */
export const JsonBounds = {
  /**
   * The bounds for a text of this length: one value for each 16 octets, at least 1024, and at most as many as fit into
   * 22 MiB of memory.
   */
  of: (octets: number): JsonBounds => ({
    octets,
    values: Math.max(1024, Math.min(octets / 16, 131_072)),
  }),

  /** No bounds, for texts that the operator or this program wrote. */
  unbounded: { octets: Infinity, values: Infinity } satisfies JsonBounds,

  /** Refuses a JSON text that would take much memory when parsed. @throws JsonTooLarge, SyntaxError */
  require(octets: Uint8Array, bounds: JsonBounds): void {
    membersWithin(octets, bounds);
  },
};

const usualBounds = JsonBounds.of(256 * 1024);

/** The error for a text that is not parsed, because it is longer than its {@link JsonBounds} or has more values. */
export class JsonTooLarge extends SyntaxError {
  constructor() {
    super("longer than its bound, or with more values");
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Parses JSON in which no object has two members of the same name. Of two, `JSON.parse` takes the last and other
 * parsers the first (RFC 8259 §4), so two readers would read different values. Two spellings of
 * one name, such as `ab` and `a\u0062`, are refused too.
 *
 * A name must not begin with an escape: V8 13.6 may misread such a name after a member named `\`.
 *
 * @param bounds By default those of 256 KiB.
 * @throws JsonTooLarge, and SyntaxError, whose message may quote the text.
 */
export function parseJson(source: string | Uint8Array, bounds: JsonBounds = usualBounds): unknown {
  if (source.length > bounds.octets) throw new JsonTooLarge();
  const octets = typeof source === "string" ? encoder.encode(source) : source;
  const members = membersWithin(octets, bounds);
  const value: unknown = JSON.parse(typeof source === "string" ? source : textOf(octets));
  if (members === countMembers(value)) return value;
  throw new SyntaxError("an object has two members of one name");
}

function textOf(octets: Uint8Array): string {
  try {
    return decoder.decode(octets);
  } catch (error) {
    throw new SyntaxError("not UTF-8", { cause: error });
  }
}

/** Counts the members in a text, repeated names too: in JSON, each has one colon outside of strings. */
function membersWithin(octets: Uint8Array, bounds: JsonBounds): number {
  const { length } = octets;
  if (length > bounds.octets) throw new JsonTooLarge();
  let [members, values] = [0, 0];
  let isString = false;
  let hasEscape = false;
  let begun = 0;
  for (let i = 0; i < length; i++) {
    const octet = octets[i];
    if (isString) {
      if (octet === quote) isString = false;
      else if (octet === backslash) {
        if (i === begun) hasEscape = true;
        i++;
      }
    } else if (octet === quote) {
      isString = true;
      hasEscape = false;
      begun = i + 1;
    } else if (octet === colon) {
      if (hasEscape) throw new SyntaxError("a name begins with an escape");
      members++;
    } else if (octet === comma || octet === brace || octet === bracket) {
      if (++values > bounds.values) throw new JsonTooLarge();
    }
  }
  return members;
}

/**
 * The members of a parsed value: fewer than its text has if a name occurs twice. It does not recurse, because a text may
 * nest deeply.
 */
function countMembers(value: unknown): number {
  let members = 0;
  const unseen: unknown[] = [value];
  for (let next = unseen.pop(); next !== undefined; next = unseen.pop()) {
    if (typeof next !== "object" || next === null) continue;
    const values: unknown[] = Object.values(next);
    if (!Array.isArray(next)) members += values.length;
    // No value in JSON is `undefined`, so the loop ends only when `unseen` is empty.
    for (const each of values) unseen.push(each);
  }
  return members;
}
