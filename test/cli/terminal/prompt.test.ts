import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { prompt } from "../../../src/cli/terminal/prompt.ts";

/** The result of a prompt for these keys, and its output. */
async function typed(keys: string): Promise<readonly [string | undefined, string]> {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const answer = prompt("Sure? ", { input, output });
  input.write(keys);
  const given = await answer;
  return [given, String(output.read() ?? "")];
}

test.each([
  ["yes", "yes\r", "yes"],
  ["nothing", "\r", ""],
  ["a line after a correction", "yea\x7fs\r", "yes"],
])("gives %s that somebody typed", async (_, keys, answer) => {
  const [given, shown] = await typed(keys);
  expect(given).toBe(answer);
  expect(shown).toContain("Sure? ");
});

test.each([
  ["Ctrl-C", "\x03"],
  ["Ctrl-C after a word", "yes\x03"],
  ["Ctrl-D", "\x04"],
])("gives no answer for %s", async (_, keys) => {
  expect((await typed(keys))[0]).toBeUndefined();
});

test("gives no answer when the terminal goes away", async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const answer = prompt("Sure? ", { input, output });
  input.end();
  expect(await answer).toBeUndefined();
});
