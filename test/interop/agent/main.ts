import { join } from "node:path";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { startRelay } from "../../testkit/network/relay.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { until } from "../../testkit/time/until.ts";
import { envoyOf, pythonWithEnvoy } from "../envoy.ts";
import { type Outcome, reportOutcomes, shown } from "../outcome-table.ts";
import { fromGoModule, required } from "../software.ts";
import { startEdgeCa } from "./edge-ca.ts";
import { startEnvoyPair } from "./envoy-pair.ts";
import { startForeignDomain } from "./foreign-domain.ts";
import { gateways } from "./gateways.ts";
import { AgentProcess } from "./processes/agent-process.ts";
import { SpiffeWatcher } from "./processes/spiffe-watcher.ts";
import { SteadyLoad, statusOf } from "./processes/steady-load.ts";
import {
  environment,
  leafSeconds,
  nodeProxy,
  playScene,
  type Stage,
  scenes,
  spireNames,
  suddenTaint,
  wholeRotation,
  wrongIdentities,
} from "./scenes.ts";
import { servingForIstiod } from "./serving.ts";
import { supervision } from "./supervision.ts";
import { playXds } from "./xds/istiod-mesh.ts";

const pythonClient = "spiffe 0.3.2 (Python)";
const goSpiffe = "go-spiffe 2.9.0";

async function play(folder: string, outcomes: Outcome[]): Promise<void> {
  const interpreter = await required(pythonWithEnvoy());
  const goModule = join(import.meta.dirname, "clients/go-spiffe");
  const goClient = await required(fromGoModule(goModule, "agent-go-spiffe"));
  const envoy = await envoyOf(interpreter);
  const ca = await startEdgeCa(leafSeconds);
  const network = await startRelay(Number(ca.url.port));
  const [portA = 0, portB = 0] = await freePorts(2);
  const foreign = await startForeignDomain(folder);
  const socket = join(folder, "api-a");
  const variablesOfA = {
    ...(await environment(folder, ca, network, "a")),
    ...foreign.variables,
    RAMPART_WORKLOAD_API_SOCKET: socket,
  };
  const a = new AgentProcess(folder, variablesOfA, portA);
  const b = new AgentProcess(folder, await environment(folder, ca, network, "b"), portB);
  a.start();
  b.start();
  await Promise.all([a.ready(), b.ready()]);
  const envoys = await startEnvoyPair({
    envoy,
    folder,
    // Envoys on one machine share memory by this number, so each suite needs its own.
    baseId: process.pid * 4,
    a: { socket: join(folder, "sds-a") },
    b: { socket: join(folder, "sds-b") },
  });
  const watch = (command: readonly string[], log: string): SpiffeWatcher =>
    new SpiffeWatcher(command, socket, join(folder, log));
  const script = join(import.meta.dirname, "clients/watch.py");
  const watchers = {
    [pythonClient]: watch([interpreter, script], "python.log"),
    [goSpiffe]: watch([goClient], "go.log"),
  };
  await until("a first answer through both Envoys", async () => {
    const statuses = await Promise.all([statusOf(envoys.keptUrl), statusOf(envoys.freshUrl)]);
    return statuses.every((status) => status === "200");
  });
  const load = new SteadyLoad([envoys.keptUrl, envoys.freshUrl, envoys.freshUrl]);
  const stage = { ca, network, agents: { a, b }, envoys, load };
  for (const [what, act] of scenes) {
    outcomes.push(await playScene(what, act, stage));
    if (act === wholeRotation) outcomes.push(...(await watched(watchers)));
  }
  await load.stop();
  outcomes.push(...(await playAlone(envoy, folder, stage)));
  await Promise.all(Object.values(watchers).map((watcher) => watcher.end()));
  await Promise.all([envoys.end(), a.end(), b.end()]);
  await foreign.close();
  network.close();
  await ca.close();
  outcomes.push(...(await playXds(envoy, await lastingFolder())));
}

/** The scenes that need an idle mesh. */
async function playAlone(envoy: string, folder: string, stage: Stage): Promise<Outcome[]> {
  const { ca, network, envoys } = stage;
  const variables = {
    ...(await environment(folder, ca, network, "a")),
    RAMPART_SDS_SOCKET: join(folder, "sds-own"),
    TERMINATION_DRAIN_DURATION_SECONDS: "1",
  };
  const istiod = await environment(folder, ca, network, "istiod");
  const { inboundPort } = envoys;
  const baseId = process.pid * 4 + 1_000_000;
  return [
    await wrongIdentities(envoys),
    await spireNames(envoy, folder),
    await suddenTaint(stage),
    await nodeProxy(envoy, folder, stage),
    await supervision({ envoy, folder, baseId, variables, inboundPort }),
    await servingForIstiod({ folder, variables: istiod }),
    ...(await gateways({ envoy, folder, baseId: baseId + 1, variables, inboundPort })),
  ];
}

function watched(watchers: Readonly<Record<string, SpiffeWatcher>>): Promise<Outcome[]> {
  const server = "rampart agent, Workload API";
  const what = "watches through a rotation, and of a federated trust domain";
  return Promise.all(
    Object.entries(watchers).map(([client, watcher]) =>
      shown({ client, server, what }, async () => {
        const fault = watcher.faultOf("spiffe://cluster.local/ns/mesh/sa/a");
        if (fault !== "") throw new Error(fault);
        return `${watcher.states.length} states, each verified by the library`;
      }),
    ),
  );
}

const folder = await lastingFolder();
const outcomes: Outcome[] = [];
const names = { client: "the whole suite", server: "rampart agent", what: "to its end" };
const whole = await shown(names, () => play(folder, outcomes));
reportOutcomes([...outcomes, ...(whole.result === "ok" ? [] : [whole])]);
process.exit();
