import { dirname, join } from "node:path";
import { styleText } from "node:util";
import { OperatorError } from "../src/foundation/operator-error.ts";
import { CaClient } from "./ca-client.ts";
import { startDevelopmentCluster } from "./cluster.ts";
import { interruption } from "./interruption.ts";
import { introduceAuthority, introduceWorkload } from "./introduction.ts";
import { say } from "./narration.ts";
import { requireFreePorts } from "./ports.ts";
import { prepareDevelopmentSecrets } from "./secrets.ts";
import { startWorkerProcess, type WorkerProcess } from "./worker-process.ts";

const root = dirname(import.meta.dirname);
const caPort = 8787;
const clusterPort = 8788;
const healthDeadlineSeconds = 30;

async function main(): Promise<void> {
  console.log("Rampart on one machine: a CA, a cluster whose tokens it trusts, a first workload\n");
  const interrupted = interruption();
  await requireFreePorts({ [caPort]: "the CA", [clusterPort]: "the development cluster" });
  const folder = join(root, ".wrangler/development");
  const cluster = await startDevelopmentCluster({ port: clusterPort, folder });
  say("cluster", `${cluster.issuer} mints ServiceAccount tokens`);
  try {
    await prepareSecrets(cluster.issuer);
    await runWorker(interrupted, (ca) => introduceWorkload(ca, cluster));
  } finally {
    await cluster.close();
  }
}

async function prepareSecrets(issuer: string): Promise<void> {
  const { file, mintedKekId } = await prepareDevelopmentSecrets(root, issuer, new Date());
  say("secrets", mintedKekId ? `${file} written, with a new KEK, ${mintedKekId}` : `${file} kept`);
}

/** Runs the Worker until it is interrupted or dies, and leaves no process of it behind. */
async function runWorker(
  interrupted: Promise<void>,
  introduce: (ca: CaClient) => Promise<void>,
): Promise<void> {
  say("worker", "starting workerd, with local KV in .wrangler/state");
  const worker = startWorkerProcess({
    root,
    port: caPort,
    variables: {
      // An empty store may get its first authority whatever the day. One that is there is kept anyway.
      INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    },
    showLine: (line) => console.log(styleText("dim", `  | ${line}`)),
  });
  const ending = new AbortController();
  try {
    const ca = new CaClient(`http://127.0.0.1:${caPort}`, ending.signal);
    const life = bringUp(ca, worker, introduce).then(() => interrupted);
    await Promise.race([life, interrupted, deathOf(worker)]);
    console.log();
    say("ending", "the worker and the cluster");
  } finally {
    ending.abort();
    await worker.end();
  }
}

async function bringUp(
  ca: CaClient,
  worker: WorkerProcess,
  introduce: (ca: CaClient) => Promise<void>,
): Promise<void> {
  if (!(await ca.awaitHealth(healthDeadlineSeconds))) {
    throw new OperatorError(
      `${transcriptOf(worker)}\n\nThe Worker did not answer within ${healthDeadlineSeconds} s.`,
    );
  }
  say("worker", `${ca.url} answers`);
  await introduceAuthority(ca);
  await introduce(ca);
  console.log("Ctrl-C ends all of it. Until then, the Worker's own log:\n");
}

async function deathOf(worker: WorkerProcess): Promise<never> {
  const how = await worker.ended;
  throw new OperatorError(
    `${transcriptOf(worker)}\n\nwrangler, which runs the Worker, ended by itself (${how}).`,
  );
}

/** Above the sentence that it explains: a terminal shows the end. */
function transcriptOf(worker: WorkerProcess): string {
  return `What wrangler said:\n\n${worker.unshownOutput() || "(nothing)"}`;
}

try {
  await main();
  say("ended", "nothing is left running");
} catch (error) {
  console.error(error instanceof OperatorError ? `\n${error.message}\n` : error);
  process.exitCode = 1;
}
