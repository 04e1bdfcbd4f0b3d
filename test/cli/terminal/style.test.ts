import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";

const style = import.meta.resolve("../../../src/cli/terminal/style.ts");

/** What the program prints of a bad word on a stream, with an environment. */
function printedWith(isTTY: boolean, environment: Readonly<Record<string, string>>): string {
  const script = `
    import { WriteStream } from "node:tty";
    import { styled } from ${JSON.stringify(style)};
    const { getColorDepth } = WriteStream.prototype;
    const stream = Object.assign(process.stdout, ${isTTY} ? { isTTY: true, getColorDepth } : {});
    stream.write(styled("bad", "x", stream));`;
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
