import { expect, test } from "vitest";
import { confirm } from "../../../src/cli/terminal/questions.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";

/** Asks on a terminal on which somebody types these keys. @returns What is shown, or the refusal. */
async function asked(question: string, keys: string): Promise<string> {
  const terminal = new MemoryTerminal({ isTTY: true });
  const answer = confirm(terminal, question);
  terminal.type(keys);
  await answer;
  return terminal.said;
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
  ["Ctrl-C after a yes", "yes\x03"],
])("takes %s for a no, and says that nothing was changed", async (_, keys) => {
  const refusal = await asked("Sure?", keys).catch((error: unknown) => error);
  expect(refusal).toEqual(new OperatorError("nothing was changed"));
  expect(refusal).toMatchObject({ exitCode: 1 });
});

test("without a terminal, says what to type, and ends as wrong use", async () => {
  const terminal = new MemoryTerminal();
  const refusal = await confirm(terminal, "Sure?").catch((error: unknown) => error);
  expect(refusal).toMatchObject({
    message: "Sure?\nThere is no terminal to ask on: add --yes",
    exitCode: 2,
  });
  expect(terminal.said).toBe("");
});
