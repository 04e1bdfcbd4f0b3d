import { optionsOf } from "../testkit/programs/options.ts";
import { type Progress, runCampaign } from "./campaign/campaign.ts";
import { caseRandom } from "./campaign/case-random.ts";
import { casesIn, failuresIn } from "./campaign/jobs.ts";
import { judged } from "./campaign/judged.ts";
import { keepFailures } from "./campaign/kept-vectors.ts";
import { type Options, parseOptions, usage } from "./options.ts";
import { progressLine, showProgress, summary } from "./report.ts";
import { type TargetName, targets } from "./targets/targets.ts";

const showMilliseconds = process.stdout.isTTY ? 500 : 20_000;

/** Shows one case: its input, and what comes of it. @returns The exit code. */
async function showCase(name: TargetName, seed: number, caseNumber: number): Promise<number> {
  const target = await targets[name]();
  const input = target.generate(caseRandom(seed, name, caseNumber));
  console.log(`${input.toString("base64")}\n${JSON.stringify(input.toString("latin1"))}`);
  const judgement = await judged(target, input);
  console.log("outcome" in judgement ? judgement.outcome : judgement.error);
  return "outcome" in judgement ? 0 : 1;
}

/** Runs a campaign to its end, its time or an interrupt, and keeps what failed. @returns The exit code. */
async function campaign({ seconds, seed, count, targets: names }: Options): Promise<number> {
  const progress: Progress = { plan: { seed, count, targets: names }, totals: {} };
  console.log(`fuzz: ${count} cases of ${names.length} targets from seed ${seed}`);
  const begun = performance.now();
  const pace = () => ({
    seconds: (performance.now() - begun) / 1000,
    cases: casesIn(progress.totals),
  });
  const interrupt = untilInterrupted();
  let shown = begun;
  await runCampaign(progress, {
    mayBegin: () => !interrupt.aborted && pace().seconds < seconds,
    advanced: () => {
      if (performance.now() - shown < showMilliseconds) return;
      shown = performance.now();
      showProgress(progressLine(progress, pace()));
    },
  });
  for (const name of names) {
    await keepFailures(name, seed, progress.totals[name]?.failures ?? []);
  }
  console.log(summary(progress, pace()));
  return failuresIn(progress.totals).length > 0 ? 1 : 0;
}

/** Aborted by the first interrupt. A second one ends the process as usual. */
function untilInterrupted(): AbortSignal {
  const ending = new AbortController();
  const end = (): void => ending.abort();
  process.once("SIGINT", end).once("SIGTERM", end);
  return ending.signal;
}

const options = optionsOf(usage, parseOptions);
const { seed, caseNumber, targets: names } = options;
const [name] = names;
const isCase = caseNumber !== undefined && name !== undefined;
process.exitCode = await (isCase ? showCase(name, seed, caseNumber) : campaign(options));
