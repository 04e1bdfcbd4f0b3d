import type { Prices } from "./parameters.ts";

/** Records and lists that an isolate reads when its view of the store is a minute old. */
const readsOfLoad = 6;

/**
 * The price of a run on Workers. An isolate works on one call at a time, so each minute has as many isolates
 * as its certificates keep busy. Each isolate reads the store once in a minute.
 */
export function priceOfWorker(
  servedPerSecond: Float64Array,
  certificateSeconds: number,
  prices: Prices,
): number {
  let served = 0;
  let reads = 0;
  for (let from = 0; from < servedPerSecond.length; from += 60) {
    const inMinute = servedPerSecond.subarray(from, from + 60).reduce((sum, rate) => sum + rate, 0);
    served += inMinute;
    reads += Math.ceil((inMinute * certificateSeconds) / 60) * readsOfLoad;
  }
  const cpuMilliseconds = served * certificateSeconds * 1000;
  const { requestMillion, cpuMillisecondMillion, kvReadMillion } = prices;
  const millionfold =
    served * requestMillion + cpuMilliseconds * cpuMillisecondMillion + reads * kvReadMillion;
  return millionfold / 1e6;
}

/** The price of the cores of `serve` for the time of a run, whether they work or not. */
export function priceOfServe(cores: number, seconds: number, prices: Prices): number {
  return (cores * seconds * prices.coreHour) / 3600;
}
