import { setMaxListeners } from "node:events";
import { optionsOf } from "../../test/testkit/programs/options.ts";
import { type Options, parseOptions, usage } from "./options.ts";
import { budget, cells, header, isWithin, type Outcome, row } from "./outcome.ts";
import { play } from "./play.ts";

/** Prints a row when its server has rested. The next flood has begun by then. */
async function tell(outcome: Promise<Outcome>): Promise<boolean> {
  const told = await outcome;
  console.log(row(cells(told)));
  return isWithin(told);
}

/** Plays each row. @returns The exit code. */
async function playAll({ seconds, after, rows }: Options): Promise<number> {
  const interruption = new AbortController();
  setMaxListeners(0, interruption.signal);
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => interruption.abort());
  console.log(row(header));
  const told: Promise<boolean>[] = [];
  for (const each of rows) {
    if (interruption.signal.aborted) break;
    const bounds = { seconds, after, interruption: interruption.signal };
    const { outcome } = await play(each, bounds);
    told.push(tell(outcome));
  }
  const within = (await Promise.all(told)).filter((isGood) => isGood).length;
  const isWhole = !interruption.signal.aborted;
  console.log(
    `\n${within} of ${rows.length} rows within: 99 % of the calls and 95 % of the probes in time, a peak of ${budget.memory} MiB, 20 % more memory afterwards${isWhole ? "" : " (interrupted)"}`,
  );
  return within === rows.length && isWhole ? 0 : 1;
}

process.exitCode = await playAll(optionsOf(usage, parseOptions));
