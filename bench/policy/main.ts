import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { stringify } from "smol-toml";
import type { Circumstances } from "../../src/ca/policy/circumstances.ts";
import { Policy } from "../../src/ca/policy/policy.ts";
import { PolicyTable } from "../../src/ca/policy/rule.ts";
import { synchronize } from "../../src/cli/verbs/log/follower.ts";
import { FollowerIndex } from "../../src/cli/verbs/log/follower-index.ts";
import { policyOfKey } from "../../src/cli/verbs/log/log-source.ts";
import { MemoryTerminal } from "../../test/testkit/programs/memory-terminal.ts";
import { optionsOf, wholeNumber } from "../../test/testkit/programs/options.ts";
import { lastingFolder } from "../../test/testkit/temporary-folder.ts";
import { median } from "../measurement/median.ts";
import { printRows, type Row } from "../measurement/report.ts";
import { createMeshLog } from "./mesh-log.ts";

/** The entries of the replay; fewer make a quick run. */
const entries = optionsOf(
  "npm run bench:policy -- [entries]    of the replay (1000000)",
  (args) => {
    const { positionals } = parseArgs({ args, allowPositionals: true });
    return wholeNumber("entries", positionals[0] ?? "1000000");
  },
);
const synchronized = 100_000;

const rules = Array.from({ length: 100 }, (_, i) => ({
  name: `rule-${i}`,
  when: { namespace: i % 2 === 0 ? `other-${i}` : `other-${i}-*` },
  then: { maximum_life: "12h" },
}));

const asked: Circumstances = {
  cluster: "prod-1",
  issuer: "https://prod-1.example.com",
  node: "node-1",
  namespace: "team-1",
  account: "account-1",
  caller: { namespace: "team-1" },
  proof: "token",
  product: "workload",
  requested: 0,
  key_type: "EC-P256",
};

/** CPU in seconds. */
async function cpuOf(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

/** CPU of a call for a hundred rules of which none fits, in microseconds: the median of rounds. */
async function decisionMicroseconds(): Promise<number> {
  const policy = Policy.create(PolicyTable.schema.parse({ rules }));
  const lifetimes = { defaultSeconds: 60, maximumSeconds: 60 };
  const times = 20_000;
  const costs: number[] = [];
  for (let round = 0; round < 60; round++) {
    const seconds = await cpuOf(() => {
      for (let i = 0; i < times; i++) Policy.decide(policy, asked, lifetimes);
    });
    costs.push((1e6 * seconds) / times);
  }
  return median(costs.slice(10));
}

/** Follows a log into a new copy. */
async function synchronizeCopy(index: FollowerIndex): Promise<number> {
  const { verifierKey, objects } = await createMeshLog(synchronized);
  const source = {
    url: "https://log.example.com/bench",
    read: async (path: string) => objects.get(path),
    announcedKey: async () => verifierKey,
    shardsBelow: async () => [],
    otherShards: async () => [],
  };
  return cpuOf(() =>
    synchronize({
      index,
      source,
      policy: policyOfKey(verifierKey),
      terminal: new MemoryTerminal(),
      reader: {},
      [Symbol.dispose]: () => {},
    }),
  );
}

/** Repeats what a copy has, until it has as many entries. */
function lengthen(index: FollowerIndex, size: number): void {
  for (let from = synchronized; from < size; from += synchronized) {
    index.run(
      `INSERT INTO entry SELECT idx + ?1, at, spiffeId, hex(randomblob(17)), cluster, node,
         tokenId || '-' || ?1, impersonator, notAfter, octets FROM entry WHERE idx < ?2`,
      ...[from, synchronized],
    );
    index.run(
      "INSERT INTO request SELECT idx + ?1, at, question, provedAt FROM request WHERE idx < ?2",
      ...[from, synchronized],
    );
  }
}

/** The wall time of the verb, its start included, with a last rule that shortens a fifth of the lives. */
async function replaySeconds(folder: string): Promise<number> {
  const config = join(folder, "rampart.toml");
  const last = { name: "last", when: { namespace: "team-1*" }, then: { maximum_life: "1h" } };
  const ISSUERS = [{ issuer: asked.issuer, cluster: asked.cluster }];
  await writeFile(config, stringify({ ISSUERS, POLICY: { rules: [...rules, last] } }));
  const before = performance.now();
  const verb = ["policy", "replay", config, "--dir", folder];
  const child = spawn(process.execPath, ["src/cli/main.ts", ...verb], { stdio: "ignore" });
  const [code] = await once(child, "exit");
  if (code !== 3) throw new Error(`the replay ended with ${code}`);
  return (performance.now() - before) / 1000;
}

const folder = await lastingFolder();
const rows: Row[] = [];
{
  using index = new FollowerIndex(folder);
  rows.push(
    {
      name: "100 rules, CPU of a call",
      value: await decisionMicroseconds(),
      unit: "µs",
      budget: 5,
    },
    {
      name: "first synchronisation of 100,000 entries, CPU",
      value: await synchronizeCopy(index),
      unit: "s",
    },
  );
  lengthen(index, entries);
}
const value = await replaySeconds(folder);
rows.push({ name: `policy replay of ${entries} entries`, value, unit: "s", budget: 20 });
if (!printRows(rows)) process.exitCode = 1;
