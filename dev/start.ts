import { randomBytes } from "node:crypto";
import { join, relative } from "node:path";
import { styleText } from "node:util";
import { OperatorError } from "../src/foundation/errors.ts";
import { startDevelopmentCluster } from "./cluster/cluster.ts";
import { introduceAuthority, introduceWorkload } from "./introduction.ts";
import { say } from "./narration.ts";
import { requireFreePorts } from "./ports.ts";
import { prepareDevelopmentSecrets } from "./secrets.ts";
import { writeWorkerConfiguration, writeWorkerVariables } from "./worker/worker-configuration.ts";
import { startWorkerProcess, type WorkerProcess } from "./worker/worker-process.ts";
import { DevelopmentCa } from "./workload/development-ca.ts";

/** The folder of `wrangler.toml`. npm starts a script in the folder of its package. */
const root = process.cwd();
const caPort = 8787;
const clusterPort = 8788;
const healthDeadlineSeconds = 30;

async function main(): Promise<void> {
  console.log(
    "Rampart on one machine: a CA, a cluster whose tokens it accepts, and a first workload\n",
  );
  const interrupted = interruption();
  await requireFreePorts({ [caPort]: "the CA", [clusterPort]: "the development cluster" });
  const folder = join(root, ".wrangler/development");
  const cluster = await startDevelopmentCluster({ port: clusterPort, folder });
  say("cluster", `${cluster.issuer} mints ServiceAccount tokens`);
  try {
    await prepareSecrets(cluster.issuer);
    const readerToken = randomBytes(24).toString("hex");
    await runWorker(interrupted, readerToken, (ca) =>
      introduceWorkload(ca, cluster, { readerToken, folder: relative(root, folder) }),
    );
  } finally {
    await cluster.close();
  }
}

async function prepareSecrets(issuer: string): Promise<void> {
  const { file, mintedKekId } = await prepareDevelopmentSecrets(root, issuer, new Date());
  say("secrets", mintedKekId ? `${file} written, with a new KEK, ${mintedKekId}` : `${file} kept`);
}

/** Runs the Worker until an interruption, or until it exits; then none of its processes is left. */
async function runWorker(
  interrupted: Promise<void>,
  readerToken: string,
  introduce: (ca: DevelopmentCa) => Promise<void>,
): Promise<void> {
  say("worker", "starting workerd, with its storage in .wrangler/state");
  const worker = startWorkerProcess({
    root,
    port: caPort,
    configuration: await writeWorkerConfiguration(root),
    variables: await writeWorkerVariables(root, {
      // An empty store gets its first authority on any day. An existing authority stays.
      INCEPTION_DATE: new Date().toISOString().slice(0, 10),
      LOG_ORIGIN: `127.0.0.1:${caPort}/log`,
      LOG_INTERVAL: "1s",
      LOG_READERS: readerToken,
      CONSOLE_TOKENS: readerToken,
    }),
    showLine: (line) => console.log(styleText("dim", `  | ${line}`)),
  });
  const ending = new AbortController();
  try {
    const ca = new DevelopmentCa(`http://127.0.0.1:${caPort}`, ending.signal);
    const life = bringUp(ca, worker, introduce).then(() => interrupted);
    await Promise.race([life, interrupted, exitOf(worker)]);
    console.log();
    say("ending", "the worker and the cluster");
  } finally {
    ending.abort();
    await worker.end();
  }
}

async function bringUp(
  ca: DevelopmentCa,
  worker: WorkerProcess,
  introduce: (ca: DevelopmentCa) => Promise<void>,
): Promise<void> {
  if (!(await ca.awaitHealth(healthDeadlineSeconds))) {
    throw new OperatorError(
      `${transcriptOf(worker)}\n\nThe Worker did not answer within ${healthDeadlineSeconds} s.`,
    );
  }
  say("worker", `${ca.url} answers`);
  await introduceAuthority(ca);
  await introduce(ca);
  console.log("Ctrl-C ends everything. The Worker's log follows:\n");
}

async function exitOf(worker: WorkerProcess): Promise<never> {
  const how = await worker.ended;
  throw new OperatorError(
    `${transcriptOf(worker)}\n\nwrangler, which runs the Worker, exited (${how}).`,
  );
}

/** Printed above the error, because a terminal shows the end. */
function transcriptOf(worker: WorkerProcess): string {
  return `Output of wrangler:\n\n${worker.unshownOutput() || "(nothing)"}`;
}

try {
  await main();
  say("ended", "no process is left");
} catch (error) {
  console.error(error instanceof OperatorError ? `\n${error.message}\n` : error);
  process.exitCode = 1;
}

/**
 * Resolves when this process is told to end: by SIGINT, SIGTERM or SIGHUP. The handlers stay, so that a
 * second Ctrl-C does not interrupt the shutdown.
 *
 * Under npm it also resolves when the parent is gone. npm sends SIGTERM to the shell that runs a script, and
 * dash exits without passing it on.
 */
function interruption(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => resolve());
    const { npm_lifecycle_event: npmScript } = process.env;
    if (npmScript === undefined) return;
    const parent = process.ppid;
    setInterval(() => process.ppid === parent || resolve(), 500).unref();
  });
}
