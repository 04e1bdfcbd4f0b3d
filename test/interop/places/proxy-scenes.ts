import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import { join } from "node:path";
import type { AgentStatus } from "../../../src/agent/agent-status.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { run, startChild } from "../../testkit/programs/child-process.ts";
import {
  launchRampart,
  program,
  runRampart,
  serveToml,
} from "../../testkit/programs/rampart-process.ts";
import { until } from "../../testkit/time/until.ts";
import { issue } from "../agent/gateways.ts";
import { type Outcome, playRows } from "../outcome-table.ts";
import { type ServingCa, startServingCa } from "../serving-ca.ts";
import type { Stage } from "./inside.ts";
import { type Pod, podAt, saidBy, servers, startPod } from "./network.ts";

const password = "s3cret-pass";
const proxyPort = 8888;
const proxyHost = "10.77.0.1";
const shown = `http://${proxyHost}:${proxyPort}`;
const proxyUrl = `http://rampart:${password}@${proxyHost}:${proxyPort}`;
const podAddress = podAt(0).v4;

/** A pod that reaches nothing but a proxy, which wants a password. */
export async function proxyScenes({ folder, programs }: Stage): Promise<Outcome[]> {
  const pod = await startPod(0, ["v4"]);
  const proxy = await startTinyproxy(folder, programs.tinyproxy);
  const values = { LISTEN: `${servers.v4}:15012`, SERVING_NAMES: ["ca.example"] };
  const ca = await startServingCa(join(folder, "ca"), { values });
  const keys = await startKeys(folder, ca);
  const stage: ProxyStage = { folder, pod, proxy, ca, keys };
  const scenes: readonly (readonly [string, (stage: ProxyStage) => Promise<string>])[] = [
    ["an agent: certificate, bundle, CRLs", agent],
    ["serve: an issuer's keys", serve],
    ["a verb", verb],
    ["a wrong password, and no proxy", refusals],
  ];
  const outcomes = await playRows(
    { client: "tinyproxy 1.11.1", server: "programs behind it" },
    scenes.map(([what, play]) => [
      what,
      async () => {
        await proxy.asked();
        return play(stage);
      },
    ]),
  );
  await Promise.all([ca.end(), proxy.end()]);
  keys.server.close();
  keys.server.closeAllConnections();
  pod.end();
  return outcomes;
}

interface ProxyStage {
  readonly folder: string;
  readonly pod: Pod;
  readonly proxy: Tinyproxy;
  readonly ca: ServingCa;
  readonly keys: Awaited<ReturnType<typeof startKeys>>;
}

type Tinyproxy = Awaited<ReturnType<typeof startTinyproxy>>;

async function startTinyproxy(folder: string, tinyproxy: string) {
  const log = join(folder, "tinyproxy.log");
  const file = join(folder, "tinyproxy.conf");
  const lines = [
    `Port ${proxyPort}`,
    `Listen ${proxyHost}`,
    "Timeout 600",
    "MaxClients 200",
    `LogFile "${log}"`,
    "LogLevel Connect",
    `BasicAuth rampart ${password}`,
  ];
  await writeFile(file, `${lines.join("\n")}\n`);
  const child = startChild(tinyproxy, ["-d", "-c", file]);
  await until("tinyproxy", () => readFile(log, "utf8").then(Boolean, () => false));
  let seen = 0;
  return {
    /** What it was asked for by CONNECT since the last look: `host:port`. */
    asked: async (): Promise<ReadonlySet<string>> => {
      const text = await readFile(log, "utf8");
      const asked = [...text.slice(seen).matchAll(/CONNECT (\S+) HTTP/g)].map(([, to = ""]) => to);
      seen = text.length;
      return new Set(asked);
    },
    end: () => child.end(),
  };
}

async function startKeys(folder: string, { mesh }: ServingCa) {
  const published = await fetch(`${mesh.issuerTable.issuer}/openid/v1/jwks`);
  const jwks = await published.text();
  const authority = await createTestAuthority("keys");
  const rootsFile = join(folder, "keys.pem");
  await writeFile(rootsFile, authority.pem);
  const server = createServer(await issue(authority, "keys.example"), (_, response) =>
    response.end(jwks),
  );
  server.listen(443, servers.v4);
  await once(server, "listening");
  return { rootsFile, server };
}

const start = (
  { pod }: Pick<ProxyStage, "pod">,
  words: readonly string[],
  environment: NodeJS.ProcessEnv,
) => launchRampart(words, { environment, command: [...pod.inside, process.execPath, program] });

function requireNoPassword(text: string): void {
  if (text.includes(password)) throw new Error("the password of the proxy is shown");
}

async function requireAsked({ proxy }: ProxyStage, ...expected: string[]): Promise<string> {
  const asked = [...(await proxy.asked())].toSorted();
  if (asked.join() !== expected.toSorted().join())
    throw new Error(`CONNECT to ${asked.join(", ")} in place of ${expected.join(", ")}`);
  return `CONNECT to ${asked.join(", ")}`;
}

async function agent(stage: ProxyStage): Promise<string> {
  const { folder, ca } = stage;
  const child = start(stage, ["agent", "run"], {
    HTTPS_PROXY: proxyUrl,
    CA_ADDR: "ca.example:15012",
    CA_ROOT_CA: ca.rootFile,
    POD_NAMESPACE: "mesh",
    SERVICE_ACCOUNT: "cart",
    RAMPART_TOKEN_FILE: await ca.tokenFile("mesh/cart"),
    RAMPART_SDS_SOCKET: join(folder, "sds-behind"),
    RAMPART_BUNDLE_URL: "https://ca.example:15012/bundle.json",
    RAMPART_STATUS_ADDR: `${podAddress}:15020`,
  });
  const status = async (): Promise<AgentStatus | undefined> =>
    fetch(`http://${podAddress}:15020/status`)
      .then((response) => response.json() as Promise<AgentStatus>)
      .catch(() => undefined);
  try {
    await until("a certificate, the bundle and CRLs", async () => {
      const now = await status();
      return Boolean(now?.isReady && now.bundle?.confirmedAt && now.revocation?.lists.length);
    }).catch(async (error) => {
      throw new Error(
        `${error}: ${JSON.stringify(await status())?.slice(0, 600)}; ${child.lines.slice(-2)}`,
      );
    });
    const now = JSON.stringify(await status());
    requireNoPassword(now + child.lines.join("\n"));
    const sentence = `TLS goes through ${shown} (HTTPS_PROXY)`;
    if (!now.includes(sentence)) throw new Error("the status does not name the proxy");
    if (!child.lines.some((line) => line.includes(sentence)))
      throw new Error("the log does not name the proxy");
    return await requireAsked(stage, "ca.example:15012");
  } finally {
    await child.end();
  }
}

async function serve(stage: ProxyStage): Promise<string> {
  const { folder, keys, ca } = stage;
  const file = join(folder, "serve-behind.toml");
  const values = {
    ISSUERS: [{ issuer: ca.mesh.issuerTable.issuer, jwks_uri: "https://keys.example/jwks" }],
    SERVING_NAMES: ["gateway.example"],
    LISTEN: `${podAddress}:15012`,
    MONITORING_LISTEN: `${podAddress}:15014`,
  };
  await writeFile(file, serveToml(join(folder, "store-behind"), values));
  // A private root of the system: the issuer has no file of its own.
  const environment = { HTTPS_PROXY: proxyUrl, SSL_CERT_FILE: keys.rootsFile, KEK: randomKek() };
  const child = start(stage, ["serve", "-c", file], environment);
  try {
    await child.addressOf("gRPC");
    const rootsFile = join(folder, "roots-behind.pem");
    const bundle = await fetch(`http://${podAddress}:15014/bundle.pem`);
    await writeFile(rootsFile, await bundle.text());
    const where = ["--url", "https://gateway.example:15012", "--ca", rootsFile];
    const how = ["--token-file", await ca.tokenFile("mesh/cart"), "--out", join(folder, "got")];
    await runRampart(["certificate", "request", ...where, ...how]);
    return await requireAsked(stage, "keys.example:443");
  } finally {
    await child.end();
    requireNoPassword(child.lines.join("\n"));
  }
}

async function inPod(stage: ProxyStage, words: readonly string[], environment: NodeJS.ProcessEnv) {
  const [nsenter = "", ...inside] = stage.pod.inside;
  const ended = await run(nsenter, [...inside, process.execPath, program, ...words], {
    environment,
  });
  requireNoPassword(ended.stdout + ended.stderr);
  return ended;
}

const request = async ({ folder, ca }: ProxyStage): Promise<readonly string[]> => [
  ...["certificate", "request", "--url", "https://ca.example:15012", "--ca", ca.rootFile],
  ...["--token-file", await ca.tokenFile("mesh/cart"), "--out", join(folder, "requested")],
];

async function verb(stage: ProxyStage): Promise<string> {
  const asked = await inPod(stage, await request(stage), { HTTPS_PROXY: proxyUrl });
  if (asked.exitCode !== 0) throw new Error(`certificate request ${saidBy(asked)}`);
  return requireAsked(stage, "ca.example:15012");
}

async function refusals(stage: ProxyStage): Promise<string> {
  const seen: string[] = [];
  for (const [HTTPS_PROXY, code] of [
    [proxyUrl.replace(password, "wrong"), "PROXY_STATUS_40[17]"],
    ["", "ENETUNREACH"],
  ] as const) {
    const asked = await inPod(stage, await request(stage), { HTTPS_PROXY });
    const [found] = new RegExp(code).exec(asked.stderr) ?? [];
    if (asked.exitCode === 0 || !found) throw new Error(`not ${code}: ${saidBy(asked)}`);
    seen.push(found);
  }
  return seen.join(", ");
}
