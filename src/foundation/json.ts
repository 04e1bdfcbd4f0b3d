import * as z from "zod/mini";
import { refuse } from "./text.ts";

const quote = 0x22;
const colon = 0x3a;
const backslash = 0x5c;

/**
 * Parses untrusted JSON in which no object has two members of the same name. Of two, `JSON.parse` takes
 * the last and other parsers the first (RFC 8259 §4), so two readers would read different values.
 *
 * A name must be written without escapes, so that it has one spelling. V8 13.6 needs that as well: after a
 * member named `\`, it may misread another name that begins with an escape.
 *
 * @throws SyntaxError. Its message may quote the text.
 */
export function parseUniqueJson(text: string): unknown {
  return parsed(text, "nowhere");
}

/**
 * Parses JSON in which a name may have escapes behind its first character, as `managedFields` of Kubernetes
 * have them. Two spellings of one name are two members of it.
 *
 * @throws SyntaxError as {@link parseUniqueJson}.
 */
export function parseEscapedJson(text: string): unknown {
  return parsed(text, "inside");
}

/** Where a name may have an escape. V8 misreads only one at its beginning. */
type Escapes = "nowhere" | "inside";

function parsed(text: string, escapes: Escapes): unknown {
  const members = membersIn(text, escapes);
  const value: unknown = JSON.parse(text);
  if (members === membersOf(value)) return value;
  throw new SyntaxError("an object has two members of one name, or a name with an escape");
}

/** The members that a text spells: in JSON, each has one colon outside of strings. -1 for a bad escape. */
function membersIn(text: string, escapes: Escapes): number {
  let members = 0;
  let isString = false;
  let hasEscape = false;
  let begun = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === quote) {
      isString = !isString;
      if (isString) {
        hasEscape = false;
        begun = i + 1;
      }
    } else if (isString) {
      if (code !== backslash) continue;
      hasEscape ||= escapes === "nowhere" || i === begun;
      i++;
    } else if (code === colon) {
      if (hasEscape) return -1;
      members++;
    }
  }
  return members;
}

/** The members that are left in a parsed value. It does not recurse, because a text may nest deeply. */
function membersOf(value: unknown): number {
  let members = 0;
  const unseen: unknown[] = [value];
  for (let next = unseen.pop(); next !== undefined; next = unseen.pop()) {
    if (typeof next !== "object" || next === null) continue;
    const values: unknown[] = Object.values(next);
    if (!Array.isArray(next)) members += values.length;
    // `undefined` would end the loop, and JSON has none.
    for (const each of values) unseen.push(each);
  }
  return members;
}

/** The JSON of a text that somebody else has written; `undefined` for any other text. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A value, or its JSON in a string: `.dev.vars` and environment variables hold only strings. */
export const jsonText: z.ZodMiniType<unknown> = z.pipe(z.unknown(), z.transform(fromText));

function fromText(value: unknown, context: z.core.ParsePayload): unknown {
  if (typeof value !== "string") return value;
  try {
    return parseUniqueJson(value);
  } catch (error) {
    // The parser's message quotes the text, which may hold more than a log should.
    return refuse(
      context,
      error instanceof SyntaxError
        ? "must be JSON, with no name twice in one object"
        : "cannot be read",
    );
  }
}
