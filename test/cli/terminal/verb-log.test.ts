import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { errorsOf, logOf } from "../../../src/cli/terminal/failures.ts";
import { authorityCommand } from "../../../src/cli/verbs/authority/authority.ts";
import { denyCommand } from "../../../src/cli/verbs/deny.ts";
import { parseVerbLog } from "../../testkit/log/log-lines.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import { Operator } from "../operator.ts";

const warning = {
  event: "import-warning",
  level: "warning",
  detail: "the root ends soon",
} as const;

test("what collects the log of a verb gets lines, and a person gets sentences", () => {
  const pipe = new MemoryTerminal();
  logOf(pipe).operation(warning);
  expect(parseVerbLog(pipe.said)).toEqual([expect.objectContaining(warning)]);
  const terminal = new MemoryTerminal({ isTTY: true });
  logOf(terminal).operation(warning);
  errorsOf(logOf(terminal)).operation(warning);
  logOf(terminal).operation({ ...warning, record: "authority", check: "seal" });
  expect(stripVTControlCharacters(terminal.said)).toBe(
    "rampart: the root ends soon\nrampart: the root ends soon (record authority, check seal)\n",
  );
});

test.each([true, false])("no log says why a verb has no KEK (at a terminal: %s)", (isTTY) => {
  const terminal = new MemoryTerminal({ isTTY });
  logOf(terminal).operation({ event: "kek-unavailable", level: "error", detail: "it is away" });
  expect(terminal.said).toBe("");
});

test("verbs that change a CA say in words alone what they did", async () => {
  const operator = await Operator.create(new Date());
  const terminal = operator.terminalWith({ isTTY: true });
  await operator.run(authorityCommand, ["init", "--yes"], terminal);
  await operator.run(denyCommand, ["add", "ns/a/sa/b", "--yes"], terminal);
  await operator.run(denyCommand, ["remove", "ns/a/sa/b", "--yes"], terminal);
  expect(terminal.said).toContain("On the files in");
  expect(terminal.said).not.toMatch(/[{}]/);
});
