import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { waitFor } from "../../src/foundation/pause.ts";
import { optionsOf, wholeNumber } from "../../test/testkit/programs/options.ts";
import { startKeyServer } from "../key-server.ts";
import { createCluster, createWorkload } from "../workload.ts";
import { startIstiods } from "./istiod.ts";
import type { MissingPeer, Peer } from "./peer.ts";
import { startServe, startWorker } from "./rampart.ts";
import { chartOf, circumstancesOf, costOf, type Run, tableOf } from "./report.ts";
import { startSpire } from "./spire.ts";
import type { Stage } from "./stage.ts";
import { startStepCa } from "./step-ca.ts";
import { startVault } from "./vault.ts";

/** V8 compiles the last of the path between the 10,000th call and this one. */
const usualWarmUp = "20000";

const usage = `npm run bench:peers -- [options]

  --rounds N         rounds in which the CAs take turns (61)
  --warm-up N        certificates of each before (${usualWarmUp})
  --build-seconds S  how long a build may take (300)
  --write            writes bench/peers/figures.md and its pictures`;

const options = optionsOf(usage, (args) => {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: "string", default: "61" },
      "warm-up": { type: "string", default: usualWarmUp },
      "build-seconds": { type: "string", default: "300" },
      write: { type: "boolean", default: false },
    },
  });
  return {
    rounds: wholeNumber("--rounds", values.rounds),
    warmUp: wholeNumber("--warm-up", values["warm-up"]),
    buildSeconds: wholeNumber("--build-seconds", values["build-seconds"]),
    write: values.write,
  };
});
const timesPerRound = 40;

type Started = readonly (Peer | MissingPeer)[];

const starts: Readonly<Record<string, (stage: Stage) => Promise<Peer | MissingPeer | Started>>> = {
  "the Worker": startWorker,
  serve: (stage) => startServe(stage, "EC-P256", 1),
  "serve, 2 processes": (stage) => startServe(stage, "EC-P256", 2),
  "serve, RSA": (stage) => startServe(stage, "RSA-2048", 1),
  istiod: startIstiods,
  "step-ca": startStepCa,
  "Vault's PKI engine": startVault,
  "SPIRE server": startSpire,
};

/** Says what the run does, which may take minutes. */
const say = (text: string): void => void process.stderr.write(`${text}\n`);

/** One after the other, so that no start disturbs another. */
async function startAll(stage: Stage): Promise<Started> {
  const started: (Peer | MissingPeer)[] = [];
  for (const [name, start] of Object.entries(starts)) {
    say(`starts ${name}; a build may take ${stage.buildSeconds} s`);
    started.push(...[await start(stage)].flat());
  }
  return started;
}

const longestLoadSeconds = 600;

/** Has a CA issue so many certificates. @throws Error if it takes too long. */
async function issue({ name, load }: Peer, times: number): Promise<void> {
  const done = await waitFor(
    load(times).then(() => true),
    1000 * longestLoadSeconds,
  );
  if (!done) throw new Error(`${name} has not issued ${times} in ${longestLoadSeconds} s`);
}

/** CPU of one certificate for each peer and round. In a round the peers take turns, first one way, then back. */
async function measure(peers: readonly Peer[]): Promise<number[][]> {
  for (const peer of peers) {
    say(`warms up ${peer.name}, ${peer.rootKey}`);
    await issue(peer, options.warmUp);
  }
  say(`measures ${options.rounds} rounds`);
  const costs = peers.map((): number[] => []);
  for (let round = 0; round < options.rounds; round++) {
    const order = [...peers.keys()];
    for (const i of round % 2 === 0 ? order : order.reverse()) {
      const peer = peers[i];
      if (!peer) continue;
      const before = peer.cpu();
      await issue(peer, timesPerRound);
      costs[i]?.push((peer.cpu() - before) / timesPerRound);
    }
  }
  return costs;
}

async function run(): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), "rampart-peers-"));
  const cluster = await createCluster("https://cluster.example", "RS256");
  const keyServer = await startKeyServer([cluster]);
  const workload = await createWorkload(cluster);
  const { rounds, warmUp, buildSeconds } = options;
  const stage = { cluster, keysUrl: keyServer.urlOf(cluster), workload, folder, buildSeconds };
  const started = await startAll(stage);
  const peers = started.filter((one) => "load" in one);
  const missing = started.filter((one) => "why" in one);
  try {
    const costs = await measure(peers);
    return {
      date: new Date().toISOString().slice(0, 10),
      machine: `${cpus().length} × ${cpus()[0]?.model ?? "unknown"}`,
      load: loadavg()[1] ?? 0,
      warmUp,
      rounds,
      costs: peers.map((peer, i) => costOf(peer, costs[i] ?? [])),
      missing,
    };
  } finally {
    await Promise.all(peers.map(({ end }) => end()));
    keyServer.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

const result = await run();
process.stdout.write(`${tableOf(result)}\n`);
if (options.write) {
  const page = "bench/peers/figures.md";
  const text = readFileSync(page, "utf8").replace(
    /(<!-- run -->\n)[\s\S]*(<!-- end of run -->)/,
    (_, begin, end) => `${begin}\n${tableOf(result)}\n\n${circumstancesOf(result)}\n\n${end}`,
  );
  writeFileSync(page, text);
  writeFileSync("docs/pictures/peers.svg", chartOf(result));
  writeFileSync("docs/pictures/peers.json", `${JSON.stringify(result, undefined, 2)}\n`);
}
process.exit();
