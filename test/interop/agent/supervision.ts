import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { runRampart } from "../../testkit/programs/rampart-process.ts";
import { until } from "../../testkit/time/until.ts";
import { type Outcome, shown } from "./outcome-table.ts";
import { AgentProcess, type AgentVariables } from "./processes/agent-process.ts";
import { statusOf } from "./processes/steady-load.ts";

/** The parts of the supervised Envoy. */
export interface SupervisionOptions {
  readonly envoy: string;
  readonly folder: string;
  readonly baseId: number;
  /** The environment of an agent for `a`, with its own socket. */
  readonly variables: AgentVariables;
  /** The port on which `b` accepts mutual TLS from `a`. */
  readonly inboundPort: number;
}

/** Runs `rampart agent bootstrap` and `rampart agent run -- envoy`, and kills, restarts and ends Envoy. */
export async function supervision(options: SupervisionOptions): Promise<Outcome> {
  const names = {
    client: "Envoy 1.40.0",
    server: "rampart agent run -- envoy",
    what: "bootstrap, crash, restart, drain",
  };
  return shown(names, () => supervise(options));
}

async function supervise(options: SupervisionOptions): Promise<string> {
  const { agent, url } = await startSupervised(options);
  const serves = async (): Promise<boolean> => (await statusOf(url)) === "200";
  const first = await agent.proxyId();
  process.kill(first, "SIGKILL");
  await until("another Envoy", async () => (await agent.proxyId()) !== first);
  await until("an answer of it", serves);
  const code = await agent.end("SIGTERM");
  if (code !== 0) throw new Error(`it ended with ${code}`);
  return "Envoy killed and restarted, then drained; exit code 0";
}

/** Starts `rampart agent run -- envoy` with a listener that leads to `b`, and waits for an answer at its URL. */
export async function startSupervised(
  options: SupervisionOptions,
): Promise<{ readonly agent: AgentProcess; readonly url: string }> {
  const [listen = 0] = await freePorts(1);
  const peer = "spiffe://cluster.local/ns/mesh/sa/b";
  const outbound = `127.0.0.1:${listen}=127.0.0.1:${options.inboundPort}=${peer}`;
  const agent = await startWithBootstrap(options, ["--outbound", outbound]);
  const url = `http://127.0.0.1:${listen}/`;
  await until("a first answer", async () => (await statusOf(url)) === "200");
  return { agent, url };
}

/** Starts `rampart agent run -- envoy` with what `rampart agent bootstrap` prints for these listeners. */
export async function startWithBootstrap(
  { envoy, folder, baseId, variables }: SupervisionOptions,
  listeners: readonly string[],
): Promise<AgentProcess> {
  const [admin = 0, status = 0] = await freePorts(2);
  const values = [...listeners, "--admin", `127.0.0.1:${admin}`];
  const file = join(folder, `bootstrap-${baseId}.json`);
  const options = { environment: variables };
  await writeFile(file, await runRampart(["agent", "bootstrap", ...values], options));
  const agent = new AgentProcess(folder, variables, status);
  const proxy = [envoy, "-c", file, "--base-id", String(baseId), "--concurrency", "1"];
  agent.start("--admin", `http://127.0.0.1:${admin}`, "--", ...proxy);
  return agent;
}
