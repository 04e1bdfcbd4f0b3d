/** What happens to a mesh. Instants are seconds since the start of the run. */
export interface Scenario {
  readonly name: string;
  /** The time in which all workloads start without a certificate; `undefined` for a mesh that is running. */
  readonly startSeconds: number | undefined;
  /** The CA answers nobody from the first instant to the second. */
  readonly outage: readonly [from: number, until: number] | undefined;
  /** Workloads that start anew, or must renew, within so many seconds. */
  readonly upheaval: Upheaval | undefined;
  /** The storm consists of the calls that begin by `settlesAt`. Its duration counts from `beginsAt`. */
  readonly beginsAt: number;
  readonly settlesAt: number;
  readonly endsAt: number;
}

interface Upheaval {
  readonly at: number;
  /** The share of the workloads. */
  readonly share: number;
  /** The time over which they come. Those that follow the bundle come within `followSeconds`. */
  readonly seconds: number;
  readonly followSeconds: number;
}

const hour = 3600;
const minute = 60;

/** The calm before an event, and the observation after it: every client renews within it. */
const calm = hour;
const observation = 26 * hour;

/** The time in which all nodes of a mesh start. */
const startSeconds = minute;
/** The time in which an operator restarts the workloads that do not follow the bundle. */
const restartSeconds = 10 * minute;
/** A waiting poll of the bundle is answered within so many seconds. */
const followSeconds = 2;

const quiet = { startSeconds: undefined, outage: undefined, upheaval: undefined };

function outageOf(hours: number): Scenario {
  const until = calm + hours * hour;
  return {
    ...quiet,
    name: hours === 1 ? "an outage of an hour" : `an outage of ${hours} hours`,
    outage: [calm, until],
    beginsAt: until,
    settlesAt: until,
    endsAt: until + observation,
  };
}

function upheavalOf(name: string, share: number, seconds: number, follows: number): Scenario {
  return {
    ...quiet,
    name,
    upheaval: { at: calm, share, seconds, followSeconds: follows },
    beginsAt: calm,
    settlesAt: calm + seconds,
    endsAt: calm + observation,
  };
}

export const scenarios: readonly Scenario[] = [
  {
    ...quiet,
    name: "a cold start",
    startSeconds,
    beginsAt: 0,
    settlesAt: startSeconds,
    endsAt: observation,
  },
  outageOf(1),
  outageOf(6),
  outageOf(12),
  upheavalOf("a taint", 1, restartSeconds, followSeconds),
  { ...quiet, name: "a rotation", beginsAt: calm, settlesAt: calm, endsAt: calm + observation },
  upheavalOf("a region that moves", 1 / 3, 5 * minute, 5 * minute),
];
