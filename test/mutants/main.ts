import { parseArgs } from "node:util";
import { optionsOf } from "../testkit/programs/options.ts";
import { Checkout } from "./checkout.ts";
import { type Mutant, mutantLists, readMutants } from "./mutants.ts";

const usage = `npm run mutants                      plants every fault, one at a time
npm run mutants -- --list core       those of a list: ${[...mutantLists()].join(", ")}
npm run mutants -- --only "a CRL"    those with these words in their meaning
npm run mutants -- --test test/pki   those that tests below this path should notice
npm run mutants -- --jobs 1          how many at once; by default 4`;

const { chosen, jobs } = optionsOf(usage, (args) => {
  const { values } = parseArgs({
    args,
    options: {
      list: { type: "string", multiple: true, default: [...mutantLists()] },
      only: { type: "string", default: "" },
      test: { type: "string", default: "" },
      jobs: { type: "string", default: "4" },
    },
  });
  const { list, only, test, jobs } = values;
  if (!/^[1-9]$/.test(jobs)) throw new Error("--jobs must be 1 to 9");
  const lists = new Set(mutantLists());
  const unknown = list.find((name) => !lists.has(name));
  if (unknown !== undefined) throw new Error(`there is no list ${unknown}`);
  const chosen = list
    .flatMap((name) => readMutants(name))
    .filter(({ meaning }) => meaning.includes(only))
    .filter((mutant) => mutant.test.split(" ").some((path) => path.startsWith(test)));
  if (chosen.length === 0) throw new Error("no mutant is meant by these words");
  return { chosen, jobs: Number(jobs) };
});

/** Takes the next of a list, in several checkouts at a time, until none is left. */
async function inCheckouts<T>(
  list: Iterable<T>,
  run: (checkout: Checkout, item: T) => Promise<void>,
) {
  const waiting = [...list].values();
  const work = async (): Promise<void> => {
    const checkout = new Checkout();
    try {
      for (const item of waiting) await run(checkout, item);
    } finally {
      checkout.remove();
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
}

const begun = Date.now();
const faults: string[] = [];

await inCheckouts(
  Map.groupBy(chosen, ({ project }) => project),
  async (checkout, [project, list]) => {
    const paths = [...new Set(list.flatMap(({ test }) => test.split(" ")))];
    const outcome = await checkout.outcome({ project, test: paths.join(" ") });
    if (outcome.failed !== undefined) faults.push(`fails without a fault: ${outcome.failed}`);
    else {
      const empty = paths.filter((path) => !outcome.files.some((file) => file.startsWith(path)));
      faults.push(...empty.map((path) => `${path} has no test`));
    }
  },
);
for (const fault of faults) console.log(fault);
if (faults.length > 0) process.exit(1);

await inCheckouts<Mutant>(chosen, async (checkout, mutant) => {
  const { failed } = await checkout.outcomeWith(mutant);
  if (failed === undefined) faults.push(mutant.meaning);
  console.log(
    `${failed === undefined ? "MISSED " : "noticed"} ${mutant.meaning}: ${failed ?? mutant.file}`,
  );
});

const seconds = Math.round((Date.now() - begun) / 1000);
console.log(`${chosen.length - faults.length} of ${chosen.length} noticed, in ${seconds} s`);
process.exitCode = faults.length === 0 ? 0 : 1;
