import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AgentProcess } from "./agent-process.ts";
import { startEdgeCa } from "./edge-ca.ts";
import { startEnvoyPair } from "./envoy-pair.ts";
import { freePorts } from "./free-ports.ts";
import { buildGoClient } from "./go-client.ts";
import { type Outcome, reportOutcomes } from "./outcome-table.ts";
import { until } from "./patience.ts";
import { startPausableProxy } from "./pausable-proxy.ts";
import { envoyProgram, installPythonPackages } from "./python-packages.ts";
import {
  environment,
  leafSeconds,
  nodeProxy,
  playScene,
  scenes,
  suddenTaint,
  wholeRotation,
  wrongIdentities,
} from "./scenes.ts";
import { SpiffeWatcher } from "./spiffe-watcher.ts";
import { SteadyLoad, statusOf } from "./steady-load.ts";
import { supervision } from "./supervision.ts";

const pythonClient = "spiffe 0.3.2 (Python)";

async function play(folder: string, outcomes: Outcome[]): Promise<void> {
  const python = await installed(pythonClient, installPythonPackages, outcomes);
  const goClient = await installed("go-spiffe 2.9.0", buildGoClient, outcomes);
  if (python === undefined) return;
  const envoy = await envoyProgram(python);
  const ca = await startEdgeCa(leafSeconds);
  const network = await startPausableProxy(ca.url);
  const [portA = 0, portB = 0] = await freePorts(2);
  const a = new AgentProcess(folder, await environment(folder, ca, network, "a"), portA);
  const b = new AgentProcess(folder, await environment(folder, ca, network, "b"), portB);
  a.start();
  b.start();
  await Promise.all([a.ready(), b.ready()]);
  const envoys = await startEnvoyPair({
    envoy,
    folder,
    // Envoys of one machine share memory by this number: it must not be another suite's.
    baseId: process.pid * 4,
    a: { socket: join(folder, "sds-a") },
    b: { socket: join(folder, "sds-b"), isIncremental: true },
  });
  const socket = join(folder, "api-a");
  const watch = (command: readonly string[], log: string): SpiffeWatcher =>
    new SpiffeWatcher(command, socket, join(folder, log));
  const script = join(import.meta.dirname, "clients/watch.py");
  const watchers = {
    [pythonClient]: watch([join(python, "bin/python"), script], "python.log"),
    ...(goClient !== undefined && { "go-spiffe 2.9.0": watch([goClient], "go.log") }),
  };
  await until("a first answer through both Envoys", 20, async () => {
    const statuses = await Promise.all([statusOf(envoys.keptUrl), statusOf(envoys.freshUrl)]);
    return statuses.every((status) => status === "200");
  });
  const load = new SteadyLoad([envoys.keptUrl, envoys.freshUrl, envoys.freshUrl]);
  const stage = { ca, network, agents: { a, b }, envoys, load };
  for (const [what, act] of scenes) {
    const outcome = await playScene(what, act, stage);
    outcomes.push(outcome);
    console.error(`${outcome.result}: ${what}`);
    if (act === wholeRotation) outcomes.push(...watched(watchers));
  }
  await load.stop();
  outcomes.push(await wrongIdentities(envoys), await suddenTaint(stage));
  outcomes.push(await nodeProxy(envoy, folder, stage));
  const { RAMPART_WORKLOAD_API_SOCKET: _none, ...own } = await environment(
    folder,
    ca,
    network,
    "a",
  );
  outcomes.push(
    await supervision({
      envoy,
      folder,
      baseId: process.pid * 4 + 1_000_000,
      variables: {
        ...own,
        RAMPART_SDS_SOCKET: join(folder, "sds-own"),
        TERMINATION_DRAIN_DURATION_SECONDS: "1",
      },
      inboundPort: envoys.inboundPort,
    }),
  );
  await Promise.all(Object.values(watchers).map((watcher) => watcher.end()));
  await Promise.all([envoys.end(), a.end(), b.end()]);
  network.close();
  await ca.close();
}

/** What the installation gives; without it, an outcome that says why. */
async function installed(
  client: string,
  install: () => Promise<string>,
  outcomes: Outcome[],
): Promise<string | undefined> {
  try {
    return await install();
  } catch (error) {
    const what = "everything that needs it";
    const detail = String(error).split("\n", 1)[0] ?? "";
    outcomes.push({ client, server: "rampart agent", what, result: "NOT RUN", detail });
    return undefined;
  }
}

function watched(watchers: Readonly<Record<string, SpiffeWatcher>>): Outcome[] {
  return Object.entries(watchers).map(([client, watcher]) => {
    const fault = watcher.faultOf("spiffe://cluster.local/ns/mesh/sa/a");
    return {
      client,
      server: "rampart agent, Workload API",
      what: "watches through a rotation",
      result: fault === "" ? "ok" : "FAILED",
      detail: fault || `${watcher.states.length} states, each verified by the library`,
    };
  });
}

const folder = await mkdtemp(join(tmpdir(), "interop-"));
const outcomes: Outcome[] = [];
try {
  await play(folder, outcomes);
  process.exitCode = reportOutcomes(outcomes) ? 0 : 1;
  if (process.exitCode === 0) await rm(folder, { recursive: true });
  else console.error(`what the programs said: ${folder}`);
} catch (error) {
  reportOutcomes(outcomes);
  console.error(error, `\nwhat the programs said: ${folder}`);
  process.exitCode = 1;
}
process.exit();
