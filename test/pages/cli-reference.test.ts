import type { Command } from "commander";
import { expect, test } from "vitest";
import { cliReference } from "../../dev/cli-reference.ts";
import { rampart } from "../../src/cli/rampart.ts";
import { exitCodes } from "../../src/cli/terminal/command-line.ts";
import { MemoryTerminal } from "../testkit/programs/memory-terminal.ts";

const reference = await cliReference();
const program = await rampart("", new MemoryTerminal());

const all = (command: Command): readonly Command[] => [
  command,
  ...command.commands.flatMap((child) => all(child)),
];

test("it has every command and every option, and says what each is", () => {
  for (const command of program.commands.flatMap(all)) {
    expect(command.description()).not.toBe("");
    const shown = command.options.filter(({ hidden }) => !hidden);
    for (const { flags } of shown) expect(reference).toContain(flags);
    for (const { description } of [...command.registeredArguments, ...shown])
      expect([command.name(), description]).not.toContain("");
  }
});

test("no help prints a default as JSON, nor a duration without its unit", () => {
  const defaults = program.commands
    .flatMap(all)
    .flatMap(({ options }) =>
      options.flatMap(({ flags, defaultValue, defaultValueDescription: told }) =>
        defaultValue === undefined ? [] : [[flags, told ?? defaultValue] as const],
      ),
    );
  expect(defaults.length).toBeGreaterThan(15);
  const isPlain = (flags: string, told: unknown) =>
    typeof told === "string" || (typeof told === "number" && flags.endsWith("<number>"));
  expect(defaults.filter(([flags, told]) => !isPlain(flags, told))).toEqual([]);
});

test("no line of a help is longer than 100 columns", () => {
  const blocks = reference.matchAll(/```text\n(.*?)\n```/gs);
  const lines = [...blocks].flatMap(([, text = ""]) => text.split("\n"));
  expect(lines.filter((line) => line.length > 100)).toEqual([]);
});

test("no two exit codes are one, and no graded one is a shell's or a signal's", () => {
  const codes = Object.values(exitCodes);
  expect(codes).toEqual([0, 1, 2, 3, 4]);
});
