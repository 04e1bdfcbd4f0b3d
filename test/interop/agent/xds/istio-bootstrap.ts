import assert from "node:assert/strict";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { isIPv6 } from "node:net";
import { join } from "node:path";
import { freePorts } from "../../../testkit/network/free-ports.ts";
import { runWell, startChild } from "../../../testkit/programs/child-process.ts";
import { program } from "../../../testkit/programs/rampart-process.ts";
import { type Outcome, shown } from "../../outcome-table.ts";
import { prebuilt } from "../../prebuilt.ts";
import { orMissing, required } from "../../software.ts";
import { prebuiltPilotAgent } from "./pilot-agent.ts";

/** Where the agent's bootstrap is another than that of Istio's own template, and why. */
const differences: readonly (readonly [place: RegExp, reason: string])[] = [
  [/\.(?:protocol|lb_policy|codec_type)$/, "Envoy's defaults"],
  [/^application_log_config/, "the operator's arguments for Envoy choose the form of its log"],
  [
    /^admin\.(?:access_log|profile_path)/,
    "no log of the admin port, and no profiler, is the default",
  ],
  [
    /metadata\.(?:ENVOY_SKIP_DEPRECATED_LOGS|ISTIO_VERSION|PILOT_SAN)/,
    "they are about pilot-agent",
  ],
  [/metadata\.METADATA_DISCOVERY/, "without it istiod sends none, too"],
  [/metadata\.WORKLOAD_IDENTITY_SOCKET_FILE/, "istiod does without the name of the socket"],
  [
    /metadata\.PROXY_CONFIG/,
    "the agent hands on what it was given, without pilot-agent's defaults",
  ],
  [/internal_listener\.typed_config/, "the message itself stands where Istio has it in another"],
  [
    /static_layer\.overload\.global_downstream/,
    "an old Envoy reads the limit of connections there",
  ],
  [/max_active_downstream_connections/, "JSON may have a 64-bit number as a text"],
  [/patterns\.suffix downstream_cx_active/, "the agent drains until no connection is left"],
  [/pipe\.path$/, "the same sockets, by absolute paths"],
  [/tcp_keepalive/, "a Unix socket knows none"],
  [/virtual_hosts/, "the only virtual host has the name of its listener, which no statistic has"],
  [/filters\.http\.compressor/, "a scrape of one Envoy is small: it goes without compression"],
];

const ofIpv6: (typeof differences)[number] = [/ipv4_compat$/, "IPv4 reaches the listeners too"];

/** A machine by its address, and the words before a command that runs there. */
interface Machine {
  readonly address: string;
  readonly inside: readonly string[];
}

/** Has pilot-agent fill in Istio's own template, and compares each field with what the agent prints. */
export async function compareBootstraps(
  parent: string,
  machine: Machine = { address: "10.0.0.7", inside: [] },
): Promise<Outcome> {
  const what = `each field of the bootstrap at ${machine.address} is that of Istio's own template, or differs for a stated reason`;
  const names = { client: "Envoy's bootstrap", server: "pilot-agent of 2026-08-27", what };
  return shown(names, async () => {
    const pilot = await required(prebuilt(prebuiltPilotAgent));
    const template = await required(orMissing(istiosTemplate));
    return compare(join(parent, "bootstrap"), machine, pilot, template);
  });
}

/** The file in the Go module of Istio, which the suite's Go client has, too. */
export async function istiosTemplate(): Promise<string> {
  const folder = join(import.meta.dirname, "../../istio-client");
  const words = ["mod", "download", "-json", "istio.io/istio"];
  const { Dir } = JSON.parse(await runWell("go", words, { folder, timeoutSeconds: 300 }));
  return join(Dir, "tools/packaging/common/envoy_bootstrap.json");
}

async function compare(
  folder: string,
  machine: Machine,
  pilotAgent: string,
  template: string,
): Promise<string> {
  const filled = await filledIn(folder, machine, pilotAgent, template);
  const words = [process.execPath, program, "agent", "bootstrap", "--xds"];
  const [command = "", ...values] = [...machine.inside, ...words];
  const printed = JSON.parse(await runWell(command, values, filled));
  const [theirs, ours] = [fieldsOf(filled.bootstrap), fieldsOf(printed)];
  const places = [...new Set([...theirs.keys(), ...ours.keys()])];
  const other = places.filter((place) => theirs.get(place) !== ours.get(place));
  const reasons = isIPv6(machine.address) ? [...differences, ofIpv6] : differences;
  const unexplained = other.filter((place) => !reasons.some(([known]) => known.test(place)));
  const shown = unexplained.map((at) => `${at}: ${ours.get(at)} instead of ${theirs.get(at)}`);
  assert.deepEqual(shown, []);
  const stale = reasons.filter(([known]) => !other.some((place) => known.test(place)));
  assert.deepEqual(stale, [], "differences that are none any more");
  return `${places.length - other.length} fields are equal, ${other.length} differ for ${reasons.length} reasons`;
}

interface Filled {
  readonly environment: NodeJS.ProcessEnv;
  readonly bootstrap: unknown;
}

/** What pilot-agent hands to its Envoy, and the environment of both agents. */
async function filledIn(
  folder: string,
  { address, inside }: Machine,
  pilotAgent: string,
  template: string,
): Promise<Filled> {
  await mkdir(join(folder, "var/run/secrets/tokens"), { recursive: true });
  await mkdir(join(folder, "var/run/secrets/istio"));
  await writeFile(join(folder, "var/run/secrets/tokens/istio-token"), "a.b.c");
  const roots = join(import.meta.dirname, "../../../vectors/istio-cacerts/root-cert.pem");
  await copyFile(roots, join(folder, "var/run/secrets/istio/root-cert.pem"));
  const binaryPath = join(folder, "envoy");
  await writeFile(binaryPath, '#!/bin/sh\ncp "$2" bootstrap.json\n', { mode: 0o755 });
  const [proxyAdminPort = 0, statusPort = 0, nobody = 0] = await freePorts(3);
  const discoveryAddress = `127.0.0.1:${nobody}`;
  const shared = { discoveryAddress, proxyAdminPort, statusPort, concurrency: 1 };
  const own = { binaryPath, proxyBootstrapTemplatePath: template };
  const environment = {
    POD_NAME: "web",
    POD_NAMESPACE: "foo",
    SERVICE_ACCOUNT: "web",
    INSTANCE_IP: address,
    ISTIO_META_CLUSTER_ID: "Kubernetes",
    PROXY_CONFIG: JSON.stringify({ ...shared, ...own }),
    RAMPART_STATUS_ADDR: `:${statusPort}`,
  };
  const words = ["proxy", "sidecar", "--domain", "foo.svc.cluster.local", "--log_target=stderr"];
  const [command = "", ...values] = [...inside, pilotAgent, ...words];
  await startChild(command, values, { environment, folder }).ended;
  const bootstrap: unknown = JSON.parse(await readFile(join(folder, "bootstrap.json"), "utf8"));
  return { environment: { ...environment, PROXY_CONFIG: JSON.stringify(shared) }, bootstrap };
}

/** Each value with its place. An entry of a list has the place of its name, or of what it is. */
function fieldsOf(value: unknown, place = ""): Map<string, unknown> {
  if (typeof value !== "object" || value === null) return new Map([[place, value]]);
  const entries = Object.entries(value).map(([key, each], i): [string, unknown] => {
    if (!Array.isArray(value)) return [key, each];
    const { name, tag_name = name } = Object(each);
    const isPlain = JSON.stringify(each).length < 80 && Object.keys(Object(each)).length === 1;
    return [tag_name ?? (isPlain ? wordsOf(each) : String(i)), each];
  });
  return new Map(
    entries.flatMap(([key, each]) => [...fieldsOf(each, place === "" ? key : `${place}.${key}`)]),
  );
}

/** Such as `prefix wasm`. */
const wordsOf = (each: object): string => Object.entries(each).flat().map(String).join(" ");
