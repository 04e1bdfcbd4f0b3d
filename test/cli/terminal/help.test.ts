import type { Command } from "commander";
import { expect, test } from "vitest";
import { authorityCommand } from "../../../src/cli/verbs/authority/authority.ts";
import { kekCommand } from "../../../src/cli/verbs/kek.ts";
import { rootCommand } from "../../../src/cli/verbs/root.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";

const terminal = new MemoryTerminal();
const nouns = [authorityCommand(terminal), rootCommand(terminal), kekCommand(terminal)];
const verbs = nouns.flatMap((noun) =>
  noun.commands.map((verb): [string, Command] => [`${noun.name()} ${verb.name()}`, verb]),
);

test.each(verbs)("%s says what it does, what it takes, and what each option means", (_, verb) => {
  expect(verb.description()).toMatch(/^[a-z]/);
  for (const { description } of [...verb.registeredArguments, ...verb.options]) {
    expect(description).not.toBe("");
  }
});

/** The verbs that write, and those that may ask before they write. */
const changes = [
  ...["init", "rotate", "taint", "import", "request", "withdraw", "install", "restore"],
  ...["add", "remove"],
];
const asking = ["init", "rotate", "taint", "import", "withdraw", "install", "restore", "remove"];

test.each(verbs)("%s has --dry-run if it writes, and --yes if it asks", (_, verb) => {
  const has = (flag: string) => verb.options.some(({ long }) => long === flag);
  expect(has("--dry-run")).toBe(changes.includes(verb.name()));
  expect(has("--yes")).toBe(asking.includes(verb.name()));
});
