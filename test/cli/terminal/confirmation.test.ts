import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { confirm } from "../../../src/cli/terminal/confirmation.ts";
import { OperatorError } from "../../../src/foundation/operator-error.ts";

/** Asks on a terminal on which somebody types these keys. @returns What is shown, or the refusal. */
async function asked(question: string, keys: string): Promise<string> {
  const input = Object.assign(new PassThrough(), { isTTY: true });
  const output = new PassThrough();
  const answer = confirm(question, {}, { input, output });
  input.write(keys);
  await answer;
  return String(output.read());
}

test("shows what will happen, and asks in the last line", async () => {
  const shown = await asked("One signs now.\nAnother is minted.\nRotate?", "y\r");
  expect(shown).toMatch(/^One signs now\.\nAnother is minted\.\n/);
  expect(shown).toContain("Rotate? [y/N] ");
});

test.each(["y\r", "yes\r", "Y\r", " YES \r"])("takes %j for a yes", async (keys) => {
  expect(await asked("Sure?", keys)).toContain("Sure?");
});

test.each([
  ["nothing", "\r"],
  ["no", "no\r"],
  ["half a yes", "ye\r"],
  ["Ctrl-C", "\x03"],
  ["Ctrl-C after a yes", "yes\x03"],
  ["Ctrl-D", "\x04"],
])("takes %s for a no, and says that nothing was changed", async (_, keys) => {
  const refusal = await asked("Sure?", keys).catch((error: unknown) => error);
  expect(refusal).toEqual(new OperatorError("nothing was changed"));
  expect(refusal).toMatchObject({ exitCode: 1 });
});

test("without a terminal, says what to type, and ends as wrong use", async () => {
  const streams = { input: new PassThrough(), output: new PassThrough() };
  const refusal = await confirm("Sure?", {}, streams).catch((error: unknown) => error);
  expect(refusal).toMatchObject({
    message: "Sure?\nThere is no terminal to ask on: add --yes",
    exitCode: 2,
  });
  expect(streams.output.read()).toBeNull();
});

test("asks nobody who has confirmed before", async () => {
  const streams = { input: new PassThrough(), output: new PassThrough() };
  await confirm("Sure?", { yes: true }, streams);
  expect(streams.output.read()).toBeNull();
});
