import type { Random } from "../../simulation/random.ts";
import { indexBelow, oneOf, several } from "./choice.ts";

/** JSON as text in pieces: what no value can say, such as a member twice, this can. */
type Json =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "list"; readonly items: readonly Json[] }
  | { readonly kind: "object"; readonly members: readonly (readonly [name: string, Json])[] };

/** Values that parsers confuse with others, or convert. */
const oddities = [
  "null",
  "true",
  "false",
  "0",
  "-0",
  "1",
  "-1",
  "0.5",
  "1e308",
  "1e999",
  "-1e999",
  "9007199254740993",
  "253402300800",
  "1795262400",
  "1795262461",
  '""',
  '" "',
  '"\\u0000"',
  '"\\ud800"',
  '"__proto__"',
  '"constructor"',
  '"null"',
  '"0"',
  "[]",
  "[[]]",
  "{}",
  '{"__proto__":{}}',
  '{"length":1}',
  "NaN",
  "01",
  "",
  '"a',
  "\u00a0",
  "[".repeat(3000),
];

/** The JSON text of a value with one to four changes somewhere in it. */
export function mutateJson(random: Random, value: unknown): string {
  return write(several(random, 4, read(value), (json) => mutated(random, json)));
}

function read(value: unknown): Json {
  if (Array.isArray(value)) return { kind: "list", items: value.map(read) };
  if (typeof value !== "object" || value === null) {
    return { kind: "text", text: JSON.stringify(value) ?? "null" };
  }
  const members = Object.entries(value).map(
    ([name, inner]) => [JSON.stringify(name), read(inner)] as const,
  );
  return { kind: "object", members };
}

function write(json: Json): string {
  switch (json.kind) {
    case "text":
      return json.text;
    case "list":
      return `[${json.items.map(write).join(",")}]`;
    case "object":
      return `{${json.members.map(([name, value]) => `${name}:${write(value)}`).join(",")}}`;
  }
}

/** Goes down into a part by chance, and changes that one. */
function mutated(random: Random, json: Json): Json {
  if (random.chance(0.1)) return odd(random);
  switch (json.kind) {
    case "text":
      return { kind: "text", text: mutatedText(random, json.text) };
    case "list": {
      const { items } = json;
      if (items.length === 0 || random.chance(0.3))
        return { kind: "list", items: reordered(random, items, odd(random)) };
      const at = indexBelow(random, items.length);
      return {
        kind: "list",
        items: items.map((item, i) => (i === at ? mutated(random, item) : item)),
      };
    }
    case "object": {
      const { members } = json;
      if (members.length === 0 || random.chance(0.3)) {
        return {
          kind: "object",
          members: reordered(random, members, [`"${oneOf(random, names)}"`, odd(random)] as const),
        };
      }
      const at = indexBelow(random, members.length);
      return {
        kind: "object",
        members: members.map((member, i) => (i === at ? mutatedMember(random, member) : member)),
      };
    }
  }
}

const names = [
  "__proto__",
  "constructor",
  "toString",
  "crit",
  "b64",
  "jwk",
  "x5c",
  "alg",
  "kid",
  "iss",
  "aud",
  "exp",
  "sub",
  "",
];

const odd = (random: Random): Json => ({ kind: "text", text: oneOf(random, oddities) });

function mutatedMember(
  random: Random,
  [name, value]: readonly [string, Json],
): readonly [string, Json] {
  if (random.chance(0.8)) return [name, mutated(random, value)];
  return [
    oneOf(random, [
      name.toUpperCase(),
      `"${oneOf(random, names)}"`,
      name.replace(/^"(.)/, (_, c: string) => `"\\u00${c.charCodeAt(0).toString(16)}`),
    ]),
    value,
  ];
}

/** Leaves one out, has one twice, adds one, or swaps two. */
function reordered<T>(random: Random, items: readonly T[], other: T): readonly T[] {
  const at = indexBelow(random, items.length);
  const item = items[at] ?? other;
  switch (indexBelow(random, 4)) {
    case 0:
      return items.toSpliced(at, 1);
    case 1:
      return [...items, item];
    case 2:
      return items.toSpliced(at, 0, other);
    default:
      return [item, ...items.toSpliced(at, 1)];
  }
}

function mutatedText(random: Random, text: string): string {
  if (random.chance(0.3)) return oneOf(random, oddities);
  if (/^-?\d/.test(text))
    return String(Number(text) + oneOf(random, [1, -1, 60, 61, -3600, 1e10, 0.5]));
  const at = 1 + indexBelow(random, Math.max(text.length - 1, 1));
  const insert = oneOf(random, [
    "x",
    ".",
    ":",
    "/",
    " ",
    "\\u0000",
    "\\u0430",
    "\\\\",
    "*",
    "%2f",
    "\u0430",
    "-",
    "A",
  ]);
  const remove = oneOf(random, [0, 0, 1, 4]);
  return `${text.slice(0, at)}${insert}${text.slice(at + remove)}`;
}
