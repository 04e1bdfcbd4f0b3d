import { exploreAll } from "./every/small-worlds.ts";
import { simulateForeignRoots } from "./foreign-mesh.ts";
import { leaseViolation } from "./key-service/kek-lease.ts";
import { simulateServiceRoot } from "./key-service/service-root.ts";
import { simulate } from "./mesh.ts";
import { simulateReplicas } from "./replicated-store.ts";
import { runStorm } from "./storm/main.ts";
import { simulateTokenKeys } from "./token-keys.ts";
import { violationIn } from "./violation.ts";

if (process.argv[2] === "storm") process.exit(runStorm(process.argv.slice(3)));

const usage = `npm run simulate                       lives through 100,000 histories of each kind
npm run simulate -- <count> [<seed>]   so many, from this seed on
npm run simulate -- every [<count>]    every history of small worlds
npm run simulate -- storm --help       a mesh that asks at once`;

const isEvery = process.argv[2] === "every";
const numbers = process.argv.slice(isEvery ? 3 : 2);
if (!numbers.every((text) => /^\d{1,12}$/.test(text))) {
  console.log(usage);
  process.exit(numbers.some((text) => /^(?:-h|--help)$/.test(text)) ? 0 : 2);
}
if (isEvery) process.exit(exploreAll(Number(numbers[0] ?? 200_000)).length === 0 ? 0 : 1);

const [count = 100_000, firstSeed = Date.now() % 1_000_000_000] = numbers.map(Number);

console.log(
  `${count} virtual histories each: own roots, two replicas, foreign roots, a root in a key service, keys for tokens, KEKs on a lease; from seed ${firstSeed}`,
);
const histories = [
  simulate,
  simulateReplicas,
  simulateForeignRoots,
  simulateServiceRoot,
  simulateTokenKeys,
];
const violations: string[] = [];
for (let seed = firstSeed; seed < firstSeed + count; seed++) {
  for (const history of histories) {
    const violation = violationIn(history, seed);
    if (violation !== undefined) violations.push(violation);
  }
  const violation = await leaseViolation(seed);
  if (violation !== undefined) violations.push(violation);
}
for (const violation of violations.slice(0, 20)) console.log(violation);
console.log(
  `${(histories.length + 1) * count - violations.length} kept every invariant, ${violations.length} did not`,
);
process.exitCode = violations.length === 0 ? 0 : 1;
