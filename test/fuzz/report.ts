import type { Progress } from "./campaign/campaign.ts";
import { casesIn, failuresIn, type TargetTotals } from "./campaign/jobs.ts";

/** A clock of a campaign: this run's seconds, and the cases that this run judged. */
interface Pace {
  readonly seconds: number;
  readonly cases: number;
}

const rateOf = ({ seconds, cases }: Pace): number => Math.round(cases / Math.max(seconds, 0.001));

/** One line of how far a campaign is. */
export function progressLine({ plan, totals }: Progress, pace: Pace): string {
  const cases = casesIn(totals);
  const percent = ((100 * cases) / plan.count).toFixed(1);
  return `${cases} of ${plan.count} cases (${percent} %), ${rateOf(pace)} a second, ${failuresIn(totals).length} faults`;
}

/** Shows a line that replaces the one before on a terminal, and is a line of its own anywhere else. */
export function showProgress(line: string): void {
  process.stdout.write(process.stdout.isTTY ? `\r\u001b[K${line}\r` : `${line}\n`);
}

/** The figures of a campaign for a reader, and one line of JSON for a machine. */
export function summary({ plan, totals }: Progress, pace: Pace): string {
  const rows = Object.entries(totals).map(
    ([target, total]) => `${target.padEnd(14)} ${rowOf(total)}`,
  );
  const failures = failuresIn(totals);
  const faults = failures.map(
    ({ target, fault, caseNumber, times }) =>
      `FAULT ${target}, ${times} times: ${fault}\n  npm run fuzz -- --target ${target} --seed ${plan.seed} --case ${caseNumber}`,
  );
  const machine = {
    seed: plan.seed,
    cases: casesIn(totals),
    seconds: Math.round(pace.seconds),
    casesPerSecond: rateOf(pace),
    faults: failures.length,
    targets: Object.fromEntries(
      Object.entries(totals).map(([target, { cases, outcomes }]) => [target, { cases, outcomes }]),
    ),
  };
  return [...rows, ...faults, JSON.stringify(machine)].join("\n");
}

const shownOutcomes = 4;

function rowOf({ cases, outcomes }: TargetTotals): string {
  const sorted = Object.entries(outcomes).toSorted(([, a], [, b]) => b - a);
  const shown = sorted.slice(0, shownOutcomes).map(([outcome, times]) => `${times} ${outcome}`);
  const rest = sorted.length - shown.length;
  return `${String(cases).padStart(9)}  ${shown.join(" · ")}${rest > 0 ? ` · and ${rest} other outcomes` : ""}`;
}
