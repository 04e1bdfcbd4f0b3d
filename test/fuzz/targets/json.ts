import { isDeepStrictEqual } from "node:util";
import { type JsonBounds, JsonTooLarge, parseJson } from "../../../src/foundation/json.ts";
import type { Random } from "../../simulation/random.ts";
import type { Octets } from "../../testkit/der/mutation.ts";
import { indexBelow, oneOf, randomOctets } from "../mutation/choice.ts";
import { mutateJson } from "../mutation/json.ts";
import { mutateOctets } from "../mutation/octets.ts";
import { requireThat, type Target } from "./target.ts";

const bounds: JsonBounds = { octets: 2_000, values: 60 };

const intact = {
  metadata: { name: "a", managedFields: [{ 'k:{"type":"Ready"}': { ".": {} } }, "\\", "{[,:"] },
  keys: [
    { kty: "EC", crv: "P-256", x: "é" },
    { "": null, a: [1, 2.5, true] },
  ],
};

/** Whole octets, and dense ones. */
function generated(random: Random): Octets {
  const text = mutateJson(random, intact);
  if (random.chance(0.2)) return mutateOctets(random, Buffer.from(text));
  if (random.chance(0.1)) return randomOctets(random, indexBelow(random, 40));
  const dense = oneOf(random, ["{},", "[],", '{"a":1},', '"{[,",', "0,"]);
  const more = random.chance(0.3) ? dense.repeat(indexBelow(random, 70)) : "";
  return Buffer.from(`[${more}${text}]`);
}

/** JSON that somebody else has written, with the bounds of its reader. */
export const json: Target = {
  generate: generated,
  judge: async (octets) => {
    const read = outcomeOf(() => parseJson(octets, bounds));
    const usual = outcomeOf(() =>
      JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(octets)),
    );
    if (usual.error) {
      requireThat(read.error !== undefined, "takes what is no JSON");
      return read.error instanceof JsonTooLarge ? "too large" : "no JSON";
    }
    const { values, hasTwice, hasEscape } = tokensOf(octets.toString());
    const isLarge = octets.length > bounds.octets || values > bounds.values;
    if (!read.error) {
      requireThat(!isLarge && !hasTwice && !hasEscape, "takes what is beyond its bounds");
      requireThat(isDeepStrictEqual(read.value, usual.value), "reads another value");
      return "read";
    }
    requireThat(isLarge || hasTwice || hasEscape, "refuses what is within its bounds");
    requireThat(isLarge || !(read.error instanceof JsonTooLarge), "calls too large what is not");
    return read.error instanceof JsonTooLarge ? "too large" : "two readings";
  },
};

function outcomeOf(work: () => unknown): { readonly value?: unknown; readonly error?: Error } {
  try {
    return { value: work() };
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return { error };
    throw error;
  }
}

const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^"{}[\],:]+/gs;

/** Another count of what JSON holds, by its tokens. */
function tokensOf(text: string) {
  const found = { values: 0, hasTwice: false, hasEscape: false };
  const open: Set<string>[] = [];
  const tokens = [...text.matchAll(token)]
    .map(([each]) => each)
    .filter((each) => each.trim() !== "");
  for (const [i, each] of tokens.entries()) {
    if ("{[,".includes(each)) found.values++;
    if (each === "{") open.push(new Set());
    if (each === "}") open.pop();
    if (tokens[i + 1] !== ":") continue;
    const name = String(JSON.parse(each));
    found.hasTwice ||= open.at(-1)?.has(name) === true;
    found.hasEscape ||= each.startsWith('"\\');
    open.at(-1)?.add(name);
  }
  return found;
}
