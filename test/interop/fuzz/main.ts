import { join } from "node:path";
import { parseArgs } from "node:util";
import { caseRandom } from "../../fuzz/campaign/case-random.ts";
import { optionsOf, wholeNumber } from "../../testkit/programs/options.ts";
import { type Outcome, report } from "../outcomes.ts";
import { fromGoModule } from "../software.ts";
import { type Comparison, comparisons, differenceIn } from "./comparisons.ts";
import { intendedDifferences } from "./intended-differences.ts";
import { type Oracle, startOracle } from "./oracle.ts";

const usage = `node test/interop/fuzz/main.ts [options]

  --count N  cases (40000)
  --seed N   decides every case (0x5eed)`;

const { count, seed } = optionsOf(usage, (args) => {
  const options = {
    count: { type: "string", default: "40000" },
    seed: { type: "string", default: "0x5eed" },
  } as const;
  const { values } = parseArgs({ args, options });
  return {
    count: wholeNumber("--count", values.count),
    seed: wholeNumber("--seed", values.seed),
  };
});
const casesAtOnce = 500;

/** The outcomes of one comparison, and the first case of each. */
interface Tally {
  alike: number;
  readonly intended: Map<string, number>;
  readonly faults: Map<string, { readonly caseNumber: number; times: number }>;
}

async function compare(comparison: Comparison, oracle: Oracle, share: number): Promise<Tally> {
  const tally: Tally = { alike: 0, intended: new Map(), faults: new Map() };
  for (let from = 0; from < share; from += casesAtOnce) {
    const inputs = Array.from({ length: Math.min(casesAtOnce, share - from) }, (_, i) =>
      comparison.generate(caseRandom(seed, comparison.name, from + i)),
    );
    const answers = await oracle.ask(inputs.map(comparison.question));
    for (const [i, input] of inputs.entries()) {
      const difference = await differenceIn(comparison, input, answers[i] ?? {});
      note(tally, comparison, difference, from + i);
    }
  }
  return tally;
}

function note(
  tally: Tally,
  { name }: Comparison,
  difference: string | undefined,
  caseNumber: number,
): void {
  if (difference === undefined) {
    tally.alike += 1;
    return;
  }
  const intended = intendedDifferences.find(
    ({ of, is }) => of.includes(name) && is.test(difference),
  );
  if (intended) {
    const { because } = intended;
    tally.intended.set(because, (tally.intended.get(because) ?? 0) + 1);
    return;
  }
  const fault = difference.replace(/\d+/g, "N").slice(0, 160);
  const known = tally.faults.get(fault);
  if (known) known.times += 1;
  else tally.faults.set(fault, { caseNumber, times: 1 });
}

function outcomeOf({ name }: Comparison, { alike, intended, faults }: Tally): Outcome {
  for (const [because, times] of intended) console.log(`fuzz: ${name}: ${times} × ${because}`);
  return {
    client: "Go's crypto/x509",
    server: `mutants of a ${name}`,
    passed: alike + [...intended.values()].reduce((sum, times) => sum + times, 0),
    faults: [...faults].map(
      ([fault, { caseNumber, times }]) =>
        `${fault} (${times} times, first in case ${caseNumber} of seed ${seed})`,
    ),
  };
}

const software = await fromGoModule(join(import.meta.dirname, "oracle"), "fuzz-oracle");
if ("missing" in software) {
  const all = { client: "Go's crypto/x509", server: "mutants" };
  report([{ ...all, passed: 0, faults: [], missing: software.missing }]);
} else {
  const begun = performance.now();
  const oracle = startOracle(software.program);
  const share = Math.ceil(count / comparisons.length);
  const outcomes: Outcome[] = [];
  for (const comparison of comparisons) {
    outcomes.push(outcomeOf(comparison, await compare(comparison, oracle, share)));
  }
  await oracle.end();
  const seconds = (performance.now() - begun) / 1000;
  const cases = share * comparisons.length;
  console.log(`fuzz: ${cases} cases, ${(cases / seconds).toFixed(0)} a second`);
  report(outcomes);
}
