import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePorts } from "../../../testkit/network/free-ports.ts";
import { type Child, startChild } from "../../../testkit/programs/child-process.ts";
import { runRampart } from "../../../testkit/programs/rampart-process.ts";
import { until } from "../../../testkit/time/until.ts";
import type { Server } from "../../native-grpc/clients/client.ts";
import type { Mesh } from "../../native-grpc/mesh.ts";
import { fromGoModule } from "../../software.ts";
import { notRun, type Outcome, shown } from "../outcome-table.ts";
import { AgentProcess, type AgentVariables } from "../processes/agent-process.ts";
import { statusOf } from "../processes/steady-load.ts";
import { ControlPlane } from "./control-plane.ts";
import { sidecarEnvironment } from "./sidecar.ts";

/** The parts that both protocols share. */
interface ControlPlaneParts {
  readonly envoy: string;
  readonly folder: string;
  readonly mesh: Mesh;
  readonly ca: Server;
  readonly leafSeconds: number;
}

const server = "go-control-plane 0.14.0";

/** What istiod cannot be made to do, between a control plane and an Envoy, by both protocols. */
export async function playControlPlane(parts: ControlPlaneParts): Promise<Outcome[]> {
  const module = join(import.meta.dirname, "control-plane");
  const found = await fromGoModule(module, "agent-control-plane");
  if ("missing" in found) {
    const what = "everything through the XDS proxy";
    return [notRun({ client: "Envoy 1.40.0", server, what }, found.missing)];
  }
  return [
    ...(await playProtocol(parts, found.program, true)),
    ...(await playProtocol(parts, found.program, false)),
  ];
}

interface Stage {
  readonly plane: ControlPlane;
  readonly agent: AgentProcess;
  readonly envoy: LoneEnvoyOptions;
  readonly url: string;
  readonly adminUrl: string;
}

async function playProtocol(
  parts: ControlPlaneParts,
  program: string,
  isIncremental: boolean,
): Promise<Outcome[]> {
  const protocol = isIncremental ? "incremental" : "state of the world";
  const folder = join(parts.folder, `control-plane-${isIncremental ? "incremental" : "full"}`);
  await mkdir(folder);
  const [port = 0] = await freePorts(1);
  const plane = await ControlPlane.start(program, folder, `127.0.0.1:${port}`);
  const { variables, adminPort, statusPort } = await sidecarEnvironment({
    ...parts,
    folder,
    istiod: plane,
    name: "web",
  });
  const own = {
    ...variables,
    ISTIO_DELTA_XDS: String(isIncremental),
    RAMPART_XDS_SOCKET: join(folder, "XDS"),
  };
  const agent = new AgentProcess(folder, own, statusPort);
  agent.start();
  await agent.ready();
  const stage = {
    plane,
    agent,
    envoy: { envoy: parts.envoy, folder, variables: own },
    url: `http://127.0.0.1:${port}/`,
    adminUrl: `http://127.0.0.1:${adminPort}`,
  };
  const outcomes = await playStage(stage, `Envoy 1.40.0, ${protocol}`);
  await agent.end();
  await plane.end();
  return outcomes;
}

async function playStage(stage: Stage, client: string): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const show = async (what: string, act: () => Promise<string>): Promise<void> =>
    void outcomes.push(await shown({ client, server, what }, act));
  let envoy = await startLoneEnvoy(stage.envoy);
  await show("a first configuration", () => firstConfiguration(stage));
  await show("a push of 20 MiB while Envoy stands still", () => largePush(stage, envoy));
  await show("a field that Envoy does not know", () => unknownField(stage));
  await show("Envoy is killed in the middle of a push, and starts again", async () => {
    await killedInPush(stage, envoy);
    envoy = await startLoneEnvoy(stage.envoy);
    await until("the whole configuration", async () => (await bodyOf(stage.url)) === "killed");
    return "the next Envoy has all of it";
  });
  await envoy.end();
  return outcomes;
}

async function firstConfiguration({ plane, url }: Stage): Promise<string> {
  await until("an answer", async () => (await bodyOf(url)) === "1");
  const opened = plane.events.find(({ event }) => event === "opened");
  if (!opened?.hasToken) throw new Error("the stream has no token");
  const first = plane.events.find(({ event }) => event === "request");
  if (!first?.hasNode) throw new Error("the first request has no node");
  return "with the token, and with Envoy's node first";
}

const large = 20;
const mebibyte = 1024 * 1024;

async function largePush({ plane, url }: Stage, envoy: Child): Promise<string> {
  envoy.send("SIGSTOP");
  const response = await plane.push({ version: "large", mebibytes: large }).finally(() => {
    envoy.send("SIGCONT");
  });
  await plane.taken(response);
  await until("the new route", async () => (await bodyOf(url)) === "large");
  if ((response.octets ?? 0) < large * mebibyte) throw new Error(`only ${response.octets} octets`);
  return `${response.octets} octets, acknowledged`;
}

async function unknownField({ plane, adminUrl }: Stage): Promise<string> {
  await plane.taken(await plane.push({ version: "unknown", hasUnknown: true }));
  const stats = await (await fetch(`${adminUrl}/stats?filter=dynamic_unknown_fields`)).text();
  const [, count = "0"] = /dynamic_unknown_fields: (\d+)/.exec(stats) ?? [];
  if (count === "0") throw new Error("Envoy has seen no unknown field");
  return `acknowledged, and counted by Envoy (${count})`;
}

async function killedInPush({ plane }: Stage, envoy: Child): Promise<void> {
  envoy.send("SIGSTOP");
  const from = plane.events.length;
  await plane.push({ version: "killed", mebibytes: large });
  await envoy.end("SIGKILL");
  await plane.next("the end of its stream", from, ({ event }) => event === "closed");
}

async function bodyOf(url: string): Promise<string> {
  if ((await statusOf(url)) !== "200") return "";
  return await (await fetch(url)).text();
}

/** The parts of an Envoy beside its agent. */
interface LoneEnvoyOptions {
  readonly envoy: string;
  readonly folder: string;
  /** The environment of the agent, of which `rampart agent bootstrap --xds` makes the bootstrap. */
  readonly variables: AgentVariables;
}

/** Starts an Envoy that its agent does not supervise, so that a test can stop and kill it. */
async function startLoneEnvoy({ envoy, folder, variables }: LoneEnvoyOptions): Promise<Child> {
  const file = join(folder, "envoy.json");
  await writeFile(
    file,
    await runRampart(["agent", "bootstrap", "--xds"], { environment: variables }),
  );
  const values = ["-c", file, "--disable-hot-restart", "--concurrency", "1", "-l", "warning"];
  return startChild(envoy, values, { logFile: join(folder, "envoy.log") });
}
