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

test("samples that stay are flat", () => {
  expect(unsteady(Array.from({ length: 30 }, () => sample()))).toEqual([]);
});

test("a quantity that grows by less than its allowance is flat", () => {
  expect(unsteady(growing({ memory: 1 }))).toEqual([]);
});

test.each(["memory", "heap", "descriptors", "resources"] as const)(
  "growing %s are seen",
  (name) => {
    expect(unsteady(growing({ [name]: 5 }))).toEqual([name]);
  },
);

test("samples of a flood do not count", () => {
  const floods = Array.from({ length: 30 }, () => sample({ memory: 500, isQuiet: false }));
  expect(unsteady([...Array.from({ length: 9 }, () => sample()), ...floods])).toEqual([]);
});

test("one outlier does not count", () => {
  const steady = Array.from({ length: 12 }, () => sample());
  expect(unsteady([...steady, sample({ memory: 900 })])).toEqual([]);
});

test("too few samples have no trend", () => {
  expect(trendsOf([sample(), sample()])).toEqual([]);
});
