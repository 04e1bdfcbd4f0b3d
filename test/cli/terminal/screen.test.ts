import { execFileSync } from "node:child_process";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { screenOf } from "../../../src/cli/terminal/terminal.ts";

const screen = import.meta.resolve("../../../src/cli/terminal/terminal.ts");

/** What the program prints of a bad word on a stream, with an environment. */
function printedWith(isTTY: boolean, environment: Readonly<Record<string, string>>): string {
  const script = `
    import { WriteStream } from "node:tty";
    import { screenOf } from ${JSON.stringify(screen)};
    const { getColorDepth } = WriteStream.prototype;
    const stream = Object.assign(process.stdout, ${isTTY} ? { isTTY: true, getColorDepth } : {});
    stream.write(screenOf(stream, {}).styled("bad", "x"));`;
  const words = ["--input-type=module", "--no-warnings", "-e", script];
  const { PATH } = process.env;
  const env = { PATH, ...environment };
  return execFileSync(process.execPath, words, { env, encoding: "utf8" });
}

const red = "\u001b[31mx\u001b[39m";

test.each([
  ["a terminal with colours", true, { TERM: "xterm-256color" }, red],
  ["a terminal with NO_COLOR", true, { TERM: "xterm-256color", NO_COLOR: "1" }, "x"],
  ["a dumb terminal", true, { TERM: "dumb" }, "x"],
  ["a pipe", false, { TERM: "xterm-256color" }, "x"],
  ["a pipe with FORCE_COLOR", false, { TERM: "dumb", FORCE_COLOR: "1" }, red],
] as const)("%s gets the word in its colour or plain", (_, isTTY, environment, shown) => {
  expect(printedWith(isTTY, environment)).toBe(shown);
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
