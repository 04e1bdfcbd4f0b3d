import { setMaxListeners } from "node:events";
import { optionsOf } from "../../test/testkit/programs/options.ts";
import { type Options, parseOptions, usage } from "./options.ts";
import { budget, cells, header, isWithin, row } from "./outcome.ts";
import { play } from "./play.ts";

/** Plays each row. @returns The exit code. */
async function playAll({ seconds, rows }: Options): Promise<number> {
  const interruption = new AbortController();
  setMaxListeners(0, interruption.signal);
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => interruption.abort());
  console.log(row(header));
  let within = 0;
  for (const each of rows) {
    if (interruption.signal.aborted) break;
    const outcome = await play(each, { seconds, interruption: interruption.signal });
    console.log(row(cells(outcome)));
    if (isWithin(outcome)) within++;
  }
  const isWhole = !interruption.signal.aborted;
  console.log(
    `\n${within} of ${rows.length} rows within: no call refused, 99 % of the calls and 95 % of the probes in time, a peak of ${budget.memory} MiB${isWhole ? "" : " (interrupted)"}`,
  );
  return within === rows.length && isWhole ? 0 : 1;
}

process.exitCode = await playAll(optionsOf(usage, parseOptions));
