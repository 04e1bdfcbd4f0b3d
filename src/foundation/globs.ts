import * as z from "zod/mini";

/**
 * A schema of lists of at most 256 globs.
 *
 * @param form The form of a glob, stars included.
 * @param noun The kind of thing that the globs name, for the faults.
 */
export function globList(form: RegExp, noun: string): z.ZodMiniArray<z.ZodMiniString> {
  const glob = z.string().check(z.regex(form, `must be a ${noun}, or a glob with *`));
  return z.array(glob).check(z.maxLength(256));
}

/** A {@link globList} that is not empty; by default every name matches. */
export function globs(
  form: RegExp,
  noun: string,
): z.ZodMiniDefault<z.ZodMiniArray<z.ZodMiniString>> {
  const isNotEmpty = z.minLength(1, `must not be empty: leave it out to allow every ${noun}`);
  return z._default(globList(form, noun).check(isNotEmpty), ["*"]);
}

/**
 * Makes a function that tests whether a name matches one of the globs, in which `*` stands for any run of characters.
 *
 * It uses no regular expression, because many stars would backtrack for longer than a request may take.
 */
export function nameAllowList(globs: readonly string[]): (name: string) => boolean {
  const forms = globs.map((glob) => glob.split("*"));
  return (name) => forms.some((pieces) => matches(pieces, name));
}

/**
 * Whether a name consists of the pieces between the stars of a glob, in their order and none overlapping. Without a star,
 * it equals the only one.
 */
function matches(pieces: readonly string[], name: string): boolean {
  const [first = ""] = pieces;
  if (pieces.length === 1) return name === first;
  const last = pieces.at(-1) ?? "";
  if (!name.startsWith(first) || name.length < first.length + last.length) return false;
  let position = first.length;
  for (const piece of pieces.slice(1, -1)) {
    const found = name.indexOf(piece, position);
    if (found < 0) return false;
    position = found + piece.length;
  }
  return position <= name.length - last.length && name.endsWith(last);
}

/** The shortest name that matches both globs; `undefined` where no name does. */
export function commonName(one: string, other: string): string | undefined {
  if (!startsAgree(one, other)) return undefined;
  // Dynamic programming over the suffixes of both globs, from the shortest on.
  let below: (string | undefined)[] = [];
  for (let i = one.length; i >= 0; i--) {
    const row: (string | undefined)[] = [];
    for (let j = other.length; j >= 0; j--) {
      row[j] = shortest(one[i], other[j], [below[j], row[j + 1], below[j + 1]]);
    }
    below = row;
  }
  return below[0];
}

/** Whether two globs agree up to the first star of either: a cheap test that most pairs fail. */
function startsAgree(one: string, other: string): boolean {
  for (let i = 0; one[i] !== "*" && other[i] !== "*"; i++) {
    if (one[i] !== other[i]) return false;
    if (one[i] === undefined) return true;
  }
  return true;
}

/** @param ends The common names of the ends that lack the next character of the first glob, of the other, and of both. */
function shortest(
  a: string | undefined,
  b: string | undefined,
  [withoutA, withoutB, withoutBoth]: readonly (string | undefined)[],
): string | undefined {
  if (a === undefined && b === undefined) return "";
  if (a !== "*" && b !== "*") return a === b ? preceded(a, withoutBoth) : undefined;
  // The star of one stands for the next character of the other, or for nothing more.
  const found = [preceded(a, withoutA), preceded(b, withoutB)].filter((name) => name !== undefined);
  return found.toSorted((x, y) => x.length - y.length)[0];
}

function preceded(character: string | undefined, name: string | undefined): string | undefined {
  if (character === undefined || name === undefined) return undefined;
  return character === "*" ? name : character + name;
}
