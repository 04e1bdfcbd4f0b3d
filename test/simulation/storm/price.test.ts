import { expect, test } from "vitest";
import { Meter, meansOf, peakOf } from "./meter.ts";
import { priceOfServe, priceOfWorker } from "./price.ts";

const prices = {
  requestMillion: 0.3,
  cpuMillisecondMillion: 0.02,
  kvReadMillion: 0.5,
  coreHour: 0.04,
};

test("a million certificates of 1.5 ms in a minute cost their calls, their CPU and 25 isolates' reads", () => {
  const perSecond = new Float64Array(60).fill(1e6 / 60);
  const price = priceOfWorker(perSecond, 0.0015, prices);
  expect(price).toBeCloseTo(0.3 + 1500 * 0.00002 + 25 * 6 * 0.0000005, 6);
});

test("a Worker without calls costs nothing, serve costs its hours", () => {
  expect(priceOfWorker(new Float64Array(3600), 0.0015, prices)).toBe(0);
  expect(priceOfServe(2, 7200, prices)).toBeCloseTo(0.16);
});

test("a meter counts by the second, and a steady rate between two instants", () => {
  const meter = new Meter(10);
  meter.count(0.5);
  meter.count(0.9);
  meter.count(3);
  meter.spread(8, 4.5, 8.2);
  expect([...meter.perSecond()].slice(0, 9)).toEqual([2, 0, 0, 1, 2, 2, 2, 2, 0]);
  expect(meter.total).toBe(11);
});

test("peaks and means are of whole seconds", () => {
  const rates = Float64Array.of(1, 9, 2, 4);
  expect(peakOf(rates)).toBe(9);
  expect(peakOf(rates, 2)).toBe(4);
  expect(meansOf(rates, 2)).toEqual([5, 3]);
});
