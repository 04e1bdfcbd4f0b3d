import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { AgentProcess } from "./agent-process.ts";
import { type EdgeCa, startEdgeCa } from "./edge-ca.ts";
import { type EnvoyPair, startEnvoyPair } from "./envoy-pair.ts";
import { freePorts } from "./free-ports.ts";
import { buildGoClient } from "./go-client.ts";
import { type Outcome, printOutcomes } from "./outcome-table.ts";
import { until } from "./patience.ts";
import { type PausableProxy, startPausableProxy } from "./pausable-proxy.ts";
import { envoyProgram, installPythonPackages } from "./python-packages.ts";
import { SpiffeWatcher } from "./spiffe-watcher.ts";
import { SteadyLoad, statusOf } from "./steady-load.ts";

/** Long enough for an outage within a certificate's life, short enough for a rotation within minutes. */
const leafSeconds = 12;
const outageSeconds = 4;

/** What the scenes of the play share. */
interface Stage {
  readonly ca: EdgeCa;
  readonly network: PausableProxy;
  readonly agents: { readonly a: AgentProcess; readonly b: AgentProcess };
  readonly envoys: EnvoyPair;
  readonly load: SteadyLoad;
}

/** What happens while requests go on, in this order. */
const scenes: readonly (readonly [what: string, play: (stage: Stage) => Promise<string>])[] = [
  ["three renewals under load", threeRenewals],
  ["a whole rotation of the authority", wholeRotation],
  ["an agent is restarted", agentRestart],
  ["an agent is killed", agentKill],
  [`the CA is away for ${outageSeconds} s`, outage],
  ["an agent is restarted while the CA is away", restartInOutage],
  ["the authority is tainted, its root stays for its leaves", gracefulTaint],
];

async function play(folder: string, outcomes: Outcome[]): Promise<void> {
  const python = await installPythonPackages();
  const [envoy, goClient] = await Promise.all([envoyProgram(python), buildGoClient()]);
  const ca = await startEdgeCa(leafSeconds);
  const network = await startPausableProxy(ca.url);
  const [portA = 0, portB = 0] = await freePorts(2);
  const a = new AgentProcess(folder, await environment(folder, ca, network, "a"), portA);
  const b = new AgentProcess(folder, await environment(folder, ca, network, "b"), portB);
  a.start();
  b.start();
  await Promise.all([a.ready(), b.ready()]);
  const envoys = await startEnvoyPair(envoy, folder, {
    a: join(folder, "sds-a"),
    b: join(folder, "sds-b"),
  });
  const socket = join(folder, "api-a");
  const watchers = {
    "spiffe 0.3.2 (Python)": new SpiffeWatcher(
      [join(python, "bin/python"), join(import.meta.dirname, "clients/watch.py")],
      socket,
      join(folder, "python.log"),
    ),
    "go-spiffe 2.9.0": new SpiffeWatcher([goClient], socket, join(folder, "go.log")),
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
    console.error(`${outcome.fault === "" ? "ok" : "FAILED"}: ${what}`);
    if (what.includes("whole rotation")) outcomes.push(...watched(watchers));
  }
  await load.stop();
  outcomes.push(await wrongIdentities(envoys), await suddenTaint(stage));
  await Promise.all(Object.values(watchers).map((watcher) => watcher.end()));
  await Promise.all([envoys.end(), a.end(), b.end()]);
  network.close();
  await ca.close();
}

async function environment(folder: string, ca: EdgeCa, network: PausableProxy, name: string) {
  return {
    CA_ADDR: network.url,
    SECRET_TTL: `${leafSeconds}s`,
    // With 0.6 of its life left: there is time for an outage.
    SECRET_GRACE_PERIOD_RATIO: "0.6",
    POD_NAMESPACE: "mesh",
    SERVICE_ACCOUNT: name,
    RAMPART_TOKEN_FILE: await ca.tokenFile(folder, name),
    RAMPART_SDS_SOCKET: join(folder, `sds-${name}`),
    RAMPART_WORKLOAD_API_SOCKET: join(folder, `api-${name}`),
    RAMPART_BUNDLE_REFRESH: "1s",
    RAMPART_CACHE: join(folder, `cache-${name}`),
  };
}

async function playScene(
  what: string,
  act: (stage: Stage) => Promise<string>,
  stage: Stage,
): Promise<Outcome> {
  const names = { client: "Envoy 1.40.0, twice", server: "rampart agent, Worker", what };
  stage.load.take();
  try {
    const seen = await act(stage);
    const { requests, failures } = stage.load.take();
    const fault = failures.length > 0 ? `${failures.length} of ${requests}: ${failures[0]}` : "";
    return { ...names, fault, evidence: `${seen}; ${requests} requests, 0 failed` };
  } catch (error) {
    return { ...names, fault: String(error), evidence: "" };
  }
}

async function threeRenewals({ agents }: Stage): Promise<string> {
  const seen = new Set<string>();
  await until("four certificates", 60, async () => {
    const { identities } = await agents.a.status();
    seen.add(identities[0]?.notAfter ?? "");
    return seen.size >= 4;
  });
  return `${seen.size} certificates`;
}

async function wholeRotation({ ca, agents }: Stage): Promise<string> {
  const first = await ca.signer();
  const rootsBefore = (await agents.b.status()).roots.map(({ sha256 }) => sha256);
  await until("another authority signs", 120, async () => (await ca.signer()) !== first);
  await until("the old root is gone", 120, async () => {
    const { roots } = await agents.b.status();
    return !roots.some(({ sha256 }) => sha256 === rootsBefore[0]);
  });
  return "the old root is gone from the proxies";
}

async function agentRestart({ agents: { a } }: Stage): Promise<string> {
  await a.end("SIGTERM");
  a.start();
  await a.ready();
  await sleep(2_000);
  return "ready again";
}

async function agentKill({ agents: { b } }: Stage): Promise<string> {
  await b.end("SIGKILL");
  b.start();
  await b.ready();
  await sleep(2_000);
  return "ready again";
}

async function outage({ network }: Stage): Promise<string> {
  network.pause();
  await sleep(outageSeconds * 1000);
  network.resume();
  await sleep(leafSeconds * 1000);
  return "renewed afterwards";
}

async function restartInOutage({ network, agents: { a } }: Stage): Promise<string> {
  network.pause();
  await a.end("SIGTERM");
  a.start();
  await a.ready();
  network.resume();
  await sleep(leafSeconds * 1000);
  return "ready from its cache";
}

async function gracefulTaint({ ca, agents }: Stage): Promise<string> {
  const tainted = await ca.taint("with-last-leaf");
  await until("another authority signs", 60, async () => (await ca.signer()) !== tainted);
  const rootOf = async (): Promise<number> => (await agents.a.status()).roots.length;
  await until("the tainted root is gone", 120, async () => (await rootOf()) === 1);
  return "the tainted root is gone from the proxies";
}

/** Whoever has a thief's key in its mesh wants it out now: connections may break, and must heal. */
async function suddenTaint({ ca, agents, envoys }: Stage): Promise<Outcome> {
  const names = { client: "Envoy 1.40.0, twice", server: "rampart agent, Worker" };
  const what = "the authority is tainted, its root leaves at once";
  const before = (await agents.a.status()).identities[0]?.notAfter;
  const begin = performance.now();
  await ca.taint("immediately");
  try {
    await until("another certificate", leafSeconds, async () => {
      return (await agents.a.status()).identities[0]?.notAfter !== before;
    });
    await until("requests succeed", leafSeconds, async () => {
      return (await statusOf(envoys.freshUrl)) === "200";
    });
    const seconds = ((performance.now() - begin) / 1000).toFixed(1);
    return { ...names, what, fault: "", evidence: `healed after ${seconds} s, by itself` };
  } catch (error) {
    return { ...names, what, fault: String(error), evidence: "" };
  }
}

async function wrongIdentities(envoys: EnvoyPair): Promise<Outcome> {
  const urls = [envoys.wrongServerUrl, envoys.wrongClientUrl];
  const statuses = await Promise.all(urls.map((url) => statusOf(url)));
  const isRefused = statuses.every((status) => status.startsWith("503"));
  return {
    client: "Envoy 1.40.0",
    server: "Envoy 1.40.0",
    what: "a peer of another identity, on either side",
    fault: isRefused ? "" : statuses.join("; "),
    evidence: "refused in the handshake",
  };
}

function watched(watchers: Readonly<Record<string, SpiffeWatcher>>): Outcome[] {
  return Object.entries(watchers).map(([client, watcher]) => ({
    client,
    server: "rampart agent, Workload API",
    what: "watches through a rotation",
    fault: watcher.faultOf("spiffe://cluster.local/ns/mesh/sa/a"),
    evidence: `${watcher.states.length} states, each verified by the library`,
  }));
}

const folder = await mkdtemp(join(tmpdir(), "interop-"));
const outcomes: Outcome[] = [];
try {
  await play(folder, outcomes);
  process.exitCode = printOutcomes(outcomes) ? 0 : 1;
  if (process.exitCode === 0) await rm(folder, { recursive: true });
  else console.error(`what the programs said: ${folder}`);
} catch (error) {
  printOutcomes(outcomes);
  console.error(error, `\nwhat the programs said: ${folder}`);
  process.exitCode = 1;
}
process.exit();
