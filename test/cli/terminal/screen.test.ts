import { execFileSync } from "node:child_process";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { screenOf } from "../../../src/cli/terminal/terminal.ts";

const screen = import.meta.resolve("../../../src/cli/terminal/terminal.ts");

const red = "\u001b[31mx\u001b[39m";
const [colours, dumb] = [{ TERM: "xterm-256color" }, { TERM: "dumb" }];

/** What shows a bad word, in which environment, and how. */
const shown: readonly (readonly [string, boolean, Readonly<Record<string, string>>, string])[] = [
  ["a terminal with colours", true, colours, red],
  ["a terminal with NO_COLOR", true, { ...colours, NO_COLOR: "1" }, "x"],
  ["a dumb terminal", true, dumb, "x"],
  ["a pipe", false, colours, "x"],
  ["a pipe with FORCE_COLOR", false, { ...dumb, FORCE_COLOR: "1" }, red],
];

test("a terminal gets a word in its colour, and others plain", () => {
  const script = `
    import { WriteStream } from "node:tty";
    import { screenOf } from ${JSON.stringify(screen)};
    const { getColorDepth } = WriteStream.prototype;
    const { PATH } = process.env;
    const words = ${JSON.stringify(shown)}.map(([what, isTTY, environment]) => {
      process.env = { PATH, ...environment };
      const stream = Object.create(process.stdout, { isTTY: { value: isTTY }, getColorDepth: { value: getColorDepth } });
      return [what, screenOf(stream, {}).styled("bad", "x")];
    });
    console.log(JSON.stringify(words));`;
  const words = ["--input-type=module", "--no-warnings", "-e", script];
  const { PATH } = process.env;
  const text = execFileSync(process.execPath, words, { env: { PATH }, encoding: "utf8" });
  expect(JSON.parse(text)).toEqual(shown.map(([what, , , word]) => [what, word]));
});

test.each<[{ isTTY?: boolean; columns?: number }, string | undefined, number]>([
  [{ isTTY: true, columns: 160 }, undefined, 160],
  [{ isTTY: true, columns: 80 }, undefined, 80],
  [{ isTTY: true, columns: 0 }, undefined, 100],
  [{ isTTY: true, columns: 10 }, undefined, 40],
  [{ isTTY: true, columns: 80 }, "120", 120],
  [{ isTTY: true, columns: 80 }, "wide", 80],
  [{ isTTY: false, columns: 160 }, undefined, Number.POSITIVE_INFINITY],
  [{}, undefined, Number.POSITIVE_INFINITY],
  [{}, "0", Number.POSITIVE_INFINITY],
  [{}, "72", 72],
])("lines for %j with COLUMNS=%s are at most %d columns", (properties, COLUMNS, width) => {
  const stream = Object.assign(new PassThrough(), properties);
  expect(screenOf(stream, { COLUMNS }).width).toBe(width);
});
