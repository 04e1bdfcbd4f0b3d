import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { errorsOf, logOf } from "../../../src/cli/terminal/failures.ts";
import { authorityCommand } from "../../../src/cli/verbs/authority/authority.ts";
import { denyCommand } from "../../../src/cli/verbs/deny.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { parseVerbLog } from "../../testkit/log/log-lines.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import { storeToml } from "../../testkit/programs/store-toml.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

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
  const terminal = new MemoryTerminal({ isTTY: true, environment: { KEK: randomKek() } });
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  await writeFile(config, storeToml(join(folder, "store")));
  await terminal.run(authorityCommand, ["init", "--yes", "-c", config]);
  await terminal.run(denyCommand, ["add", "ns/a/sa/b", "--yes", "-c", config]);
  await terminal.run(denyCommand, ["remove", "ns/a/sa/b", "--yes", "-c", config]);
  expect(terminal.said).toContain("On the files in");
  expect(terminal.said).not.toMatch(/[{}]/);
});
