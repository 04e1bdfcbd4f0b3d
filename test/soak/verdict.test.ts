import { expect, test } from "vitest";
import { type Sample, trendsOf } from "./verdict.ts";

const sample = (changes: Partial<Sample> = {}): Sample => ({
  memory: 100,
  heap: 20,
  descriptors: 40,
  resources: 30,
  peak: 120,
  isQuiet: true,
  ...changes,
});

const growing = (step: Partial<Sample>): Sample[] =>
  Array.from({ length: 30 }, (_, i) => {
    const grown = Object.entries(step).map(([name, by]) => [name, 100 + i * Number(by)]);
    return sample(Object.fromEntries(grown));
  });

const unsteady = (samples: readonly Sample[]): string[] =>
  trendsOf(samples).flatMap(({ quantity, isFlat }) => (isFlat ? [] : [quantity]));

const thirty = (changes?: Partial<Sample>) => Array.from({ length: 30 }, () => sample(changes));

test.each([
  ["that stay", thirty()],
  ["that grow by less than their allowance", growing({ memory: 1 })],
  ["of a flood", [...thirty().slice(21), ...thirty({ memory: 500, isQuiet: false })]],
  ["with one outlier", [...thirty().slice(18), sample({ memory: 900 })]],
])("samples %s are flat", (_, samples) => {
  expect(unsteady(samples)).toEqual([]);
});

test.each(["memory", "heap", "descriptors", "resources"] as const)(
  "growing %s are seen",
  (name) => {
    expect(unsteady(growing({ [name]: 5 }))).toEqual([name]);
  },
);

test("too few samples have no trend", () => {
  expect(trendsOf([sample(), sample()])).toEqual([]);
});
