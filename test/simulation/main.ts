import { optionsOf, wholeNumber } from "../testkit/programs/options.ts";
import { exploreAll } from "./every/small-worlds.ts";
import { simulate } from "./mesh.ts";
import { runStorm } from "./storm/main.ts";
import { simulateTokenKeys } from "./token-keys.ts";
import { violationIn } from "./violation.ts";

const usage = `npm run simulate                       lives through 100,000 histories of each kind
npm run simulate -- <count> [<seed>]   so many, from this seed on
npm run simulate -- every [<count>]    every history of small worlds
npm run simulate -- storm --help       a mesh that asks at once`;

const [kind, ...others] = process.argv.slice(2);
if (kind === "storm") {
  runStorm(others);
  process.exit();
}
const numbers = optionsOf(
  usage,
  (words) => words.map((word) => wholeNumber("a count or a seed", word)),
  kind === "every" ? others : process.argv.slice(2),
);
if (kind === "every") process.exit(exploreAll(numbers[0] ?? 200_000).length === 0 ? 0 : 1);

const [count = 100_000, firstSeed = Date.now() % 1_000_000_000] = numbers;

console.log(
  `${count} virtual histories each: own roots, and keys for tokens; from seed ${firstSeed}`,
);
const histories = [simulate, simulateTokenKeys];
const violations: string[] = [];
for (let seed = firstSeed; seed < firstSeed + count; seed++) {
  for (const history of histories) {
    const violation = violationIn(history, seed);
    if (violation !== undefined) violations.push(violation);
  }
}
for (const violation of violations.slice(0, 20)) console.log(violation);
console.log(
  `${histories.length * count - violations.length} kept every invariant, ${violations.length} did not`,
);
process.exitCode = violations.length === 0 ? 0 : 1;
