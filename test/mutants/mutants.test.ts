import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mutantLists, plant, readMutants } from "./mutants.ts";

const root = join(import.meta.dirname, "../..");
const mutants = mutantLists().flatMap((name) => readMutants(name));

test.each(mutants)("$meaning: its line and its tests are there", (mutant) => {
  const whole = readFileSync(join(root, mutant.file), "utf8");
  expect(plant(mutant, whole)).not.toBe(whole);
  const missing = mutant.test.split(" ").filter((path) => !existsSync(join(root, path)));
  expect(missing).toEqual([]);
});

test("a fault is planted in no file that lacks its line, or has it twice", () => {
  const mutant = { file: "src/a.ts", text: "a", instead: "b" };
  expect(() => plant(mutant, "c")).toThrow("src/a.ts has 0 times: a");
  expect(() => plant(mutant, "a a")).toThrow("src/a.ts has 2 times: a");
});

test("a fault is no mistake of spelling, which every test would notice", () => {
  const mutant = { file: "src/a.ts", text: "a", instead: "(" };
  expect(() => plant(mutant, "const b = a;")).toThrow(SyntaxError);
});
