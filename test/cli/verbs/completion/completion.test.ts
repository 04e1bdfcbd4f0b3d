import { Argument, Command, Option } from "commander";
import { expect, test } from "vitest";
import { rampart } from "../../../../src/cli/rampart.ts";
import { completedCommands } from "../../../../src/cli/verbs/completion/completed-command.ts";
import {
  bashScript,
  fishScript,
  zshScript,
} from "../../../../src/cli/verbs/completion/completion.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";

const commands = completedCommands(await rampart("", new MemoryTerminal()));
const scripts = [
  ["bash", bashScript(commands)],
  ["zsh", zshScript(commands)],
  ["fish", fishScript(commands)],
] as const;

test("every command of the tree is completed, with every option", () => {
  const names = commands.map(({ words }) => words.join(" "));
  expect(names).toEqual(expect.arrayContaining(["", "authority", "authority list", "log witness"]));
  const list = commands.find(({ words }) => words.join(" ") === "authority list");
  const spellings = list?.options.flatMap((option) => option.spellings);
  expect(spellings).toEqual(expect.arrayContaining(["-c", "--config", "--json", "--help"]));
});

test.each(scripts)("the script for %s knows every command and every long option", (_, script) => {
  for (const { words, options } of commands) {
    expect(script).toContain(words.at(-1) ?? "");
    for (const { spellings } of options) {
      expect(script).toContain(spellings.at(-1)?.replace(/^-+/, ""));
    }
  }
});

test("names of values tell what a shell completes, and choices are its words", () => {
  const command = new Command("x")
    .addArgument(new Argument("<chain>"))
    .option("--dir <folder>")
    .option("--json")
    .addOption(new Option("--root <when>").choices(["now", "later"]))
    .option("--name <cluster>");
  const [own] = completedCommands(command);
  expect(own?.values).toBe("files");
  const values = new Map(own?.options.map(({ spellings, values }) => [spellings.at(-1), values]));
  expect(Object.fromEntries(values)).toEqual({
    "--dir": "folders",
    "--json": undefined,
    "--root": ["now", "later"],
    "--name": "nothing",
    "--help": undefined,
  });
});

test("a hidden option is not completed", () => {
  const serve = commands.find(({ words }) => words.join(" ") === "serve");
  const spellings = serve?.options.flatMap((option) => option.spellings);
  expect(spellings).toContain("--processes");
  expect(spellings).not.toContain("--process");
});

test.each(scripts)("a quote in a description ends no word for %s", (shell, script) => {
  const quoted = shell === "fish" ? "CA\\'s" : "CA'\\''s";
  expect(shell === "bash" || script.includes(quoted)).toBe(true);
  expect(script).not.toMatch(/the CA's/);
});
