/** A stretch of time as wide as a picture. */
export interface Range {
  readonly from: Date;
  readonly until: Date;
  /** The place of an instant, from 0 to 100, in tenths; instants outside are at the edge. */
  readonly percent: (at: Date) => number;
}

interface Stretch {
  readonly from: Date;
  readonly until: Date;
}

/** The range that holds `now` and all of the stretches, with a margin. */
export function rangeOf(stretches: readonly Stretch[], now: Date): Range {
  const times = [now, ...stretches.flatMap(({ from, until }) => [from, until])].map(Number);
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const margin = Math.max(60_000, (last - first) * 0.02);
  const [from, until] = [first - margin, last + margin];
  const percent = (at: Date): number => {
    const share = (at.getTime() - from) / (until - from);
    return Math.round(1000 * Math.min(1, Math.max(0, share))) / 10;
  };
  return { from: new Date(from), until: new Date(until), percent };
}

/** A mark on the axis. */
export interface Tick {
  readonly percent: number;
  readonly text: string;
}

const hour = 3_600_000;
const day = 24 * hour;
const mostTicks = 6;

/** Steps of hours and days, which divide a day and begin with a day in UTC. */
const shortSteps: readonly number[] = [1, 3, 6, 12].map((hours) => hours * hour);
const daySteps: readonly number[] = [1, 2, 7, 14].map((days) => days * day);
const monthSteps: readonly number[] = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600];

/** At most six round instants within the range. */
export function ticksOf(range: Range): Tick[] {
  const span = range.until.getTime() - range.from.getTime();
  const step = [...shortSteps, ...daySteps].find((each) => span / each <= mostTicks);
  const instants = step === undefined ? months(range) : multiples(range, step);
  const isShort = step !== undefined && step < day;
  return instants.map((at) => ({
    percent: range.percent(at),
    text: isShort ? at.toISOString().slice(11, 16) : dayText(at, step === undefined),
  }));
}

function multiples({ from, until }: Range, step: number): Date[] {
  const instants: Date[] = [];
  for (let at = Math.ceil(from.getTime() / step) * step; at <= until.getTime(); at += step) {
    instants.push(new Date(at));
  }
  return instants;
}

function months({ from, until }: Range): Date[] {
  const spanMonths = (until.getTime() - from.getTime()) / (30.44 * day);
  const step = monthSteps.find((each) => spanMonths / each <= mostTicks) ?? 1200;
  const first = Math.ceil((from.getUTCFullYear() * 12 + from.getUTCMonth() + 1) / step) * step;
  return Array.from({ length: mostTicks + 1 }, (_, i) => first + i * step)
    .map((month) => new Date(Date.UTC(Math.floor(month / 12), month % 12)))
    .filter((at) => at <= until);
}

const monthNames = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

function dayText(at: Date, isMonth: boolean): string {
  const month = monthNames[at.getUTCMonth()];
  return isMonth ? `${month} ${at.getUTCFullYear()}` : `${at.getUTCDate()} ${month}`;
}
