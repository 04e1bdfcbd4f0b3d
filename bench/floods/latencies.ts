/** The latency above which an answer is too late for a caller, in milliseconds. */
export const deadline = 1000;

/** How long a call took; infinitely long if it failed. */
export interface Latency {
  readonly milliseconds: number;
  /** CPU time of the server meanwhile. */
  readonly serverCpuMilliseconds: number;
  /** For how long the server could have gone on meanwhile, and other programs of the machine did. */
  readonly serverWaitMilliseconds: number;
}

export type Latencies = readonly Latency[];

/** The part of the calls that were answered in time. What other programs took of the machine is no fault of a server. */
export function partInTime(latencies: Latencies): number {
  const inTime = latencies.filter(
    ({ milliseconds, serverWaitMilliseconds }) => milliseconds - serverWaitMilliseconds <= deadline,
  );
  return inTime.length / Math.max(1, latencies.length);
}

/** The server's CPU that this part of the calls stays below, in milliseconds. */
export function percentile(latencies: Latencies, part: number): number {
  const sorted = latencies
    .map(({ serverCpuMilliseconds }) => serverCpuMilliseconds)
    .toSorted((a, b) => a - b);
  return sorted[Math.ceil(part * sorted.length) - 1] ?? Number.NaN;
}
