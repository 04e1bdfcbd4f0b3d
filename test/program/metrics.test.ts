import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { Metrics } from "../../src/program/metrics.ts";

test.each(["gauge", "counter"] as const)(
  "a series of a %s that is not read any more disappears, and none is counted twice",
  async (type) => {
    const registry = new Registry();
    let read: [number, Record<string, string>][] = [];
    const series = { type, name: "series", help: "Series.", labelNames: ["of"], read: () => read };
    Metrics.addReadSeries(registry, series);
    const lines = async () => (await registry.metrics()).match(/^series.*$/gm) ?? [];
    read = [
      [2, { of: "a" }],
      [3, { of: "b" }],
    ];
    expect(await lines()).toEqual(['series{of="a"} 2', 'series{of="b"} 3']);
    read = read.slice(1);
    expect(await lines()).toEqual(['series{of="b"} 3']);
  },
);
