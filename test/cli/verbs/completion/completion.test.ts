import { Argument, Command, Option } from "commander";
import { describe, expect, test } from "vitest";
import { rampart } from "../../../../src/cli/rampart.ts";
import { completionsOf } from "../../../../src/cli/verbs/completion/completion.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";

const program = await rampart("", new MemoryTerminal());
const candidates = (line: string): readonly string[] =>
  completionsOf(program, line.split(" ")).map((each) => each.split("\t")[0] ?? "");

describe("the last word of a line", () => {
  test.each([
    ["au", ["authority"]],
    ["authority rot", ["rotate"]],
    ["authority list --js", ["--json"]],
    ["authority list --json --conf", ["--config"]],
    ["authority taint abcd --root ", ["immediately", "with-last-leaf"]],
    ["authority taint abcd --root im", ["immediately"]],
    ["authority list --config ramp", [":files"]],
    ["authority import ramp", [":files"]],
    ["log follow --dir a", [":folders"]],
    ["completion f", ["fish"]],
  ])("of %j becomes one of %j", (line, words) => {
    expect(candidates(line)).toEqual(words);
  });

  test.each(["authority rotate --zzz", "nowhere zzz", "authority list --config authority rot"])(
    "of %j becomes nothing",
    (line) => {
      expect(candidates(line)).toEqual([]);
    },
  );

  test("of nothing becomes every noun, and none that is hidden", () => {
    const words = candidates("");
    expect(words).toEqual(expect.arrayContaining(["authority", "serve", "--help"]));
    expect(words.filter((word) => word.startsWith("_"))).toEqual([]);
  });
});

test("every command and every option of the tree is completed, and no hidden option", () => {
  const check = (command: Command, words: readonly string[]): void => {
    const found = candidates([...words, ""].join(" "));
    for (const child of command.commands) {
      expect(found).toContain(child.name());
      check(child, [...words, child.name()]);
    }
    for (const { long, hidden } of command.options)
      expect([long, found.includes(long ?? "")]).toEqual([long, !hidden]);
  };
  check(program, []);
});

test("names of values tell what a shell completes, and choices are its words", () => {
  const command = new Command("x")
    .addArgument(new Argument("<chain>"))
    .option("--dir <folder>")
    .addOption(new Option("--root <when>").choices(["now", "later"]))
    .option("--name <cluster>");
  const parent = new Command("rampart").addCommand(command);
  const after = (word: string) => completionsOf(parent, ["x", word, ""]);
  expect(after("--dir")).toEqual([":folders"]);
  expect(after("--root")).toEqual(["now", "later"]);
  expect(after("--name")).toEqual([]);
  expect(completionsOf(parent, ["x", ""])).toContain(":files");
});

test("a description stands in the line of its word", () => {
  const command = new Command("x").description("one\n  two\tthree");
  const parent = new Command("rampart").addCommand(command);
  expect(completionsOf(parent, ["x"])).toEqual(["x\tone two three"]);
});

test("the program answers the scripts of the shells", async () => {
  const { printed } = await MemoryTerminal.ran(["__complete", "authority", "rot"]);
  expect(printed).toMatch(/^rotate\t[^\n]+\n$/);
});
