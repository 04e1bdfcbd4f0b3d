import { expect, test } from "vitest";
import { otherRuntime, runtimeFaults, runtimeLimits } from "../../src/program/runtime.ts";

test("Node is no other runtime, and keeps nothing from a program", () => {
  expect(otherRuntime).toBeUndefined();
  expect(runtimeLimits()).toEqual([]);
  expect(runtimeFaults()).toEqual([]);
});

test("a fault of Deno has its number", () => {
  expect(runtimeFaults("Deno").join()).toContain("denoland/deno#36788");
  expect(runtimeFaults("Bun")).toEqual([]);
});

test.each(["Deno", "Bun"] as const)("%s says in sentences what it keeps from a program", (name) => {
  for (const each of runtimeLimits(name)) expect(each).toMatch(new RegExp(`^${name} .+[^.]$`));
  expect(runtimeLimits(name)).not.toEqual([]);
});
