import type { Random } from "../../simulation/random.ts";
import { indexBelow, oneOf, several } from "./choice.ts";
import { mutateOctets } from "./octets.ts";

/** Characters at the borders of the alphabets of base64, PEM and JWS. */
const insertions = [
  "=",
  "==",
  "-",
  "_",
  "+",
  "/",
  ".",
  "..",
  " ",
  "\t",
  "\n",
  "\r\n",
  "\r",
  "\0",
  "\u00a0",
  "\u2028",
  "\ufeff",
  "A",
  "-----",
  "-----BEGIN CERTIFICATE-----\n",
  "-----END CERTIFICATE-----\n",
  "-----END CERTIFICATE REQUEST-----\n",
  "-----BEGIN CERTIFICATE REQUEST-----\n",
  "Proc-Type: 4,ENCRYPTED\n\n",
  "x".repeat(2000),
  "\n".repeat(2000),
];

type Change = (random: Random, text: string) => string;

const changes: readonly Change[] = [
  (random, text) => splice(text, indexBelow(random, text.length + 1), 0, oneOf(random, insertions)),
  (random, text) => splice(text, indexBelow(random, text.length + 1), 1, oneOf(random, insertions)),
  (random, text) =>
    splice(text, indexBelow(random, text.length + 1), 1 + indexBelow(random, 70), ""),
  (random, text) => otherSymbol(random, text),
  (random, text) => otherLines(random, text),
  (random, text) => text + text.slice(indexBelow(random, text.length)),
  (random, text) => text.replaceAll("\n", oneOf(random, ["\r\n", "\r", "", " \n", "\n\n"])),
  (random, text) => mutateOctets(random, Buffer.from(text)).toString("latin1"),
];

/** Changes a text of base64 and boundaries. */
export const mutateText = (random: Random, text: string): string =>
  several(random, 4, text, (some) => oneOf(random, changes)(random, some));

const splice = (text: string, at: number, remove: number, insert: string): string =>
  `${text.slice(0, at)}${insert}${text.slice(at + remove)}`;

/** Exchanges one symbol for its neighbour, which in the last place changes bits that no decoder reads. */
function otherSymbol(random: Random, text: string): string {
  const places = [...text.matchAll(/[A-Za-z0-9](?==*(?:\s|\.|$))/g)].map(({ index }) => index);
  const at =
    random.chance(0.5) && places.length > 0
      ? oneOf(random, places)
      : indexBelow(random, text.length);
  return splice(
    text,
    at,
    1,
    String.fromCharCode(((text.charCodeAt(at) || 65) + oneOf(random, [1, -1, 2, 16])) & 0x7f),
  );
}

/** Leaves out a line, has it twice, or moves it. */
function otherLines(random: Random, text: string): string {
  const lines = text.split("\n");
  const from = indexBelow(random, lines.length);
  const line = oneOf(random, lines);
  const without = lines.toSpliced(from, 1);
  return oneOf(random, [
    without,
    lines.toSpliced(from, 0, line),
    without.toSpliced(indexBelow(random, lines.length), 0, line),
  ]).join("\n");
}
