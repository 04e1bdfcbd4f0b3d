import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { createServer } from "node:https";
import { join } from "node:path";
import { stringify } from "smol-toml";
import type { AgentStatus } from "../../../src/agent/agent-status.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { jwksOf } from "../../testkit/callers/tokens.ts";
import { startService } from "../../testkit/key-services/key-service.ts";
import { playVault, vaultToken } from "../../testkit/key-services/vault-transit.ts";
import {
  namespaceOf,
  startWatchedApi,
  watchedToken,
} from "../../testkit/kubernetes/watched-api.ts";
import { type Child, run, startChild } from "../../testkit/programs/child-process.ts";
import { launchRampart, program } from "../../testkit/programs/rampart-process.ts";
import { s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { until } from "../../testkit/time/until.ts";
import type { Outcome } from "../agent/outcome-table.ts";
import { issuerTable, signerName, startPlacedCa, tokenIn, tokenKey } from "./ca.ts";
import { playAll, type Stage } from "./inside.ts";
import { startLoopbackHttp } from "./loopback-http.ts";
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
  const ca = await startPlacedCa(join(folder, "ca"), servers.v4, { LISTEN: `${servers.v4}:15012` });
  const neighbours = await startNeighbours(folder);
  const stage: ProxyStage = { folder, pod, proxy, ca, neighbours };
  const scenes: readonly (readonly [string, (stage: ProxyStage) => Promise<string>])[] = [
    ["an agent by native gRPC: certificate, bundle, CRLs", (on) => agent(on, "ca.example:15012")],
    ["an agent by Connect: the same", (on) => agent(on, "https://ca.example:15012")],
    ["a gateway, whose caller is an agent", gateway],
    ["distribute: the bundle, and the API server", distribute],
    ["a signer: the bundle, and the lease of the API server", signer],
    ["serve: an issuer's keys, a KEK in Vault, its store in a bucket", serve],
    ["a verb, and what doctor shows", verbs],
    ["a wrong password, and no proxy", refusals],
    ["servers of NO_PROXY", exemptions],
  ];
  const outcomes = await playAll(
    { client: "tinyproxy 1.11.1", server: "programs behind it" },
    scenes.map(([what, play]) => [
      what,
      async () => {
        await proxy.asked();
        return play(stage);
      },
    ]),
  );
  await Promise.all([ca.end(), proxy.end(), neighbours.close()]);
  pod.end();
  return outcomes;
}

interface ProxyStage {
  readonly folder: string;
  readonly pod: Pod;
  readonly proxy: Tinyproxy;
  readonly ca: Awaited<ReturnType<typeof startPlacedCa>>;
  readonly neighbours: Awaited<ReturnType<typeof startNeighbours>>;
}

interface Tinyproxy {
  /** What it was asked for by CONNECT since the last look: `host:port`. */
  readonly asked: () => Promise<ReadonlySet<string>>;
  readonly end: () => Promise<number>;
}

async function startTinyproxy(folder: string, tinyproxy: string): Promise<Tinyproxy> {
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
    asked: async () => {
      const text = await readFile(log, "utf8");
      const asked = [...text.slice(seen).matchAll(/CONNECT (\S+) HTTP/g)].map(([, to = ""]) => to);
      seen = text.length;
      return new Set(asked);
    },
    end: () => child.end(),
  };
}

/** Servers over TLS below a private root, by their names. */
async function startNeighbours(folder: string) {
  const authority = await createTestAuthority("neighbours");
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const day = 86_400_000;
  const cert = await authority.issue("", publicKey, {
    hosts: ["keys.example", "vault.example", "s3.example", "kube.example"],
    notBefore: new Date(Date.now() - day),
    notAfter: new Date(Date.now() + day),
  });
  const key = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const rootsFile = join(folder, "neighbours.pem");
  await writeFile(rootsFile, authority.pem);
  const [vault, s3, api, keys, leases] = await Promise.all([
    startService(await playVault()),
    startS3Api(),
    startWatchedApi(),
    startLoopbackHttp(() => JSON.stringify(jwksOf(tokenKey))),
    startLoopbackHttp(leaseApi()),
  ]);
  api.put(namespaceOf("shop"));
  const ports: Readonly<Record<string, string>> = {
    "keys.example": keys.host,
    "vault.example": vault.host,
    "s3.example": new URL(s3.origin).host,
    "kube.example": new URL(api.origin).host,
    "kube.example:6443": leases.host,
  };
  const server = createServer({ key, cert }, (request, response) => {
    const { method, url, headers } = request;
    const to = ports[headers.host ?? ""] ?? "127.0.0.1:1";
    const passed = httpRequest(
      `http://${to}${url}`,
      { method, headers, setHost: false },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        response.flushHeaders();
        answer.pipe(response);
      },
    );
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    request.pipe(passed);
  });
  const listening = [443, 6443].map(async (port) => {
    const each =
      port === 443 ? server : createServer({ key, cert }, server.listeners("request")[0] as never);
    each.listen(port, servers.v4);
    await once(each, "listening");
    return each;
  });
  const all = await Promise.all(listening);
  return {
    rootsFile,
    s3,
    api,
    close: async () => {
      for (const each of all) each.closeAllConnections();
      for (const each of all) each.close();
      await Promise.all([vault.close(), s3.close(), api.close(), keys.close(), leases.close()]);
    },
  };
}

/** The part of an API server that a signer needs before anybody requests a certificate. */
function leaseApi(): (method: string, url: string, body: string) => string {
  let lease = "";
  return (method, url, body) => {
    if (!url.includes("/leases"))
      return JSON.stringify({ metadata: { resourceVersion: "1" }, items: [] });
    if (method !== "GET") {
      const { metadata, ...rest } = JSON.parse(body);
      lease = JSON.stringify({
        ...rest,
        metadata: { ...metadata, resourceVersion: `${Date.now()}` },
      });
    }
    return lease;
  };
}

/** Starts `rampart` in the pod. */
const start = (
  { pod }: Pick<ProxyStage, "pod">,
  words: readonly string[],
  environment: NodeJS.ProcessEnv,
): Child =>
  launchRampart(words, { environment, command: [...pod.inside, process.execPath, program] });

/** Writes the configuration of a program in the pod. @returns Starts it. */
async function configured(
  stage: ProxyStage,
  verb: string,
  values: Readonly<Record<string, unknown>>,
): Promise<{ readonly file: string; readonly run: (environment?: NodeJS.ProcessEnv) => Child }> {
  const file = join(stage.folder, `${verb}-behind.toml`);
  const listen = { MONITORING_LISTEN: `${podAddress}:15014` };
  await writeFile(file, stringify({ ...values, ...listen }));
  return {
    file,
    run: (environment) =>
      start(stage, [verb, "-c", file], { HTTPS_PROXY: proxyUrl, ...environment }),
  };
}

const readiness = async (): Promise<{ ready?: boolean; leading?: boolean; reasons?: unknown }> => {
  const response = await fetch(`http://${podAddress}:15014/readyz`).catch(() => undefined);
  return response ? ((await response.json()) as object) : {};
};

/** Waits until the program is ready, ends it, and looks at what it said. */
async function readyAnd<T>(child: Child, act: () => Promise<T>): Promise<T> {
  try {
    await until("ready", async () => (await readiness()).ready === true).catch(async (error) => {
      throw new Error(`${error}: ${JSON.stringify(await readiness())}; ${child.lines.slice(-2)}`);
    });
    return await act();
  } finally {
    await child.end();
    requireNoPassword(child.lines.join("\n"));
  }
}

function requireNoPassword(text: string): void {
  if (text.includes(password)) throw new Error("the password of the proxy is shown");
}

async function requireAsked({ proxy }: ProxyStage, ...expected: string[]): Promise<string> {
  const asked = [...(await proxy.asked())].toSorted();
  if (asked.join() !== expected.toSorted().join())
    throw new Error(`CONNECT to ${asked.join(", ")} in place of ${expected.join(", ")}`);
  return `CONNECT to ${asked.join(", ")}`;
}

async function agentVariables(
  { folder, ca }: Pick<ProxyStage, "folder" | "ca">,
  CA_ADDR: string,
): Promise<NodeJS.ProcessEnv> {
  return {
    CA_ADDR,
    CA_ROOT_CA: ca.rootsFile,
    POD_NAMESPACE: "shop",
    SERVICE_ACCOUNT: "cart",
    RAMPART_TOKEN_FILE: await ca.tokenFile("shop/cart"),
    RAMPART_SDS_SOCKET: join(folder, "sds-behind"),
    RAMPART_BUNDLE_URL: "https://ca.example:15012/bundle.json",
    RAMPART_STATUS_ADDR: `${podAddress}:15020`,
  };
}

async function agent(stage: ProxyStage, address: string): Promise<string> {
  const variables = await agentVariables(stage, address);
  const child = start(stage, ["agent", "run"], { ...variables, HTTPS_PROXY: proxyUrl });
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

async function gateway(stage: ProxyStage): Promise<string> {
  const { folder, ca } = stage;
  const { run: begin } = await configured(stage, "gateway", {
    UPSTREAM: "https://ca.example:15012",
    UPSTREAM_CA_FILE: ca.rootsFile,
    TOKEN_FILE: await ca.tokenFile("mesh/gateway"),
    LISTEN: `${podAddress}:15012`,
  });
  return readyAnd(begin(), async () => {
    const words = ["agent", "run"];
    const environment = {
      ...(await agentVariables(stage, "gateway.example:15012")),
      RAMPART_STATUS_ADDR: "127.0.0.1:15020",
      RAMPART_SDS_SOCKET: join(folder, "sds-near"),
      RAMPART_BUNDLE_URL: "https://gateway.example:15012/bundle.json",
    };
    const caller = launchRampart(words, { environment });
    await until("a certificate by the gateway", async () =>
      caller.lines.some((line) => line.includes('"certificate-obtained"')),
    ).finally(() => caller.end());
    return requireAsked(stage, "ca.example:15012");
  });
}

async function distribute(stage: ProxyStage): Promise<string> {
  const { folder, ca, neighbours } = stage;
  const token = join(folder, "token-of-distribute");
  await writeFile(token, watchedToken);
  const { run: begin } = await configured(stage, "distribute", {
    UPSTREAM: "https://ca.example:15012",
    UPSTREAM_CA_FILE: ca.rootsFile,
    KUBERNETES_SERVER: "https://kube.example",
    KUBERNETES_CA_FILE: neighbours.rootsFile,
    KUBERNETES_TOKEN_FILE: token,
  });
  return readyAnd(begin(), async () => {
    const { data } = Object(neighbours.api.configMapIn("shop"));
    if (data?.["root-cert.pem"] !== (await ca.bundle())) throw new Error("other roots");
    return requireAsked(stage, "ca.example:15012", "kube.example:443");
  });
}

async function signer(stage: ProxyStage): Promise<string> {
  const { folder, ca, neighbours } = stage;
  const token = join(folder, "token-of-distribute");
  const { run: begin } = await configured(stage, "signer", {
    UPSTREAM: "https://ca.example:15012",
    UPSTREAM_CA_FILE: ca.rootsFile,
    TOKEN_FILE: await ca.tokenFile("mesh/signer"),
    KUBERNETES_SERVER: "https://kube.example:6443",
    KUBERNETES_CA_FILE: neighbours.rootsFile,
    KUBERNETES_TOKEN_FILE: token,
    SIGNERS: [{ name: signerName, services: [{ account: "shop/web", dns_names: ["*.shop.svc"] }] }],
  });
  return readyAnd(begin(), async () => {
    await until("the lease", async () => (await readiness()).leading === true);
    return requireAsked(stage, "ca.example:15012", "kube.example:6443");
  });
}

async function serve(stage: ProxyStage): Promise<string> {
  const { folder, neighbours } = stage;
  const environment = {
    HTTPS_PROXY: proxyUrl,
    // A private root of the system: Vault and the issuer have no file of their own.
    SSL_CERT_FILE: neighbours.rootsFile,
    VAULT_TOKEN: vaultToken,
    AWS_ACCESS_KEY_ID: s3Credential.accessKeyId,
    AWS_SECRET_ACCESS_KEY: s3Credential.secretAccessKey,
  };
  const { bucket, region } = neighbours.s3.place;
  const { file, run: begin } = await configured(stage, "serve", {
    ISSUERS: [{ ...issuerTable, jwks_uri: "https://keys.example/jwks" }],
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "10s",
    STORE: "s3",
    STORE_BUCKET: bucket,
    S3_ENDPOINT: "https://s3.example",
    S3_REGION: region,
    S3_CA_FILE: neighbours.rootsFile,
    SERVING_NAMES: ["gateway.example"],
    LISTEN: `${podAddress}:15012`,
  });
  const key = "hashivault://vault.example/transit/keys/rampart";
  const wrapped = await inPod(stage, ["kek", "wrap", "k1", key, "--config", file], environment);
  if (wrapped.exitCode !== 0) throw new Error(`kek wrap ${saidBy(wrapped)}`);
  return readyAnd(begin({ ...environment, KEK: wrapped.stdout.trim() }), async () => {
    const rootsFile = join(folder, "roots-behind.pem");
    const bundle = await fetch(`http://${podAddress}:15014/bundle.pem`);
    await writeFile(rootsFile, await bundle.text());
    const caller = launchRampart(["agent", "run"], {
      environment: {
        CA_ADDR: "gateway.example:15012",
        CA_ROOT_CA: rootsFile,
        POD_NAMESPACE: "shop",
        SERVICE_ACCOUNT: "cart",
        RAMPART_TOKEN_FILE: await tokenIn(folder, "shop/cart"),
        RAMPART_SDS_SOCKET: join(folder, "sds-serve"),
        RAMPART_STATUS_ADDR: "127.0.0.1:15020",
      },
    });
    await until("a certificate by serve", async () =>
      caller.lines.some((line) => line.includes('"certificate-obtained"')),
    ).finally(() => caller.end());
    return requireAsked(stage, "keys.example:443", "s3.example:443", "vault.example:443");
  });
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
  ...["certificate", "request", "--url", "https://ca.example:15012", "--ca", ca.rootsFile],
  ...["--token-file", await ca.tokenFile("shop/cart"), "--out", join(folder, "requested")],
];

async function verbs(stage: ProxyStage): Promise<string> {
  const asked = await inPod(stage, await request(stage), { HTTPS_PROXY: proxyUrl });
  if (asked.exitCode !== 0) throw new Error(`certificate request ${saidBy(asked)}`);
  const doctor = await inPod(
    stage,
    ["doctor", "--json", "--config", join(stage.folder, "ca/rampart.toml")],
    {
      HTTPS_PROXY: proxyUrl,
    },
  );
  if (!doctor.stdout.includes(`TLS goes through ${shown} (HTTPS_PROXY)`))
    throw new Error(`doctor does not name the proxy: ${doctor.stdout.slice(0, 300)}`);
  return requireAsked(stage, "ca.example:15012");
}

async function refusals(stage: ProxyStage): Promise<string> {
  const wrong = proxyUrl.replace(password, "wrong");
  const seen: string[] = [];
  for (const [HTTPS_PROXY, code] of [
    [wrong, "PROXY_STATUS_40[17]"],
    [proxyUrl.replace(`${proxyPort}`, "1"), "PROXY_ECONNREFUSED"],
    ["", "ENETUNREACH"],
  ] as const) {
    const asked = await inPod(stage, await request(stage), { HTTPS_PROXY });
    const [found] = new RegExp(code).exec(asked.stderr) ?? [];
    if (asked.exitCode === 0 || !found) throw new Error(`not ${code}: ${saidBy(asked)}`);
    seen.push(found);
  }
  const child = start(stage, ["agent", "run"], {
    ...(await agentVariables(stage, "ca.example:15012")),
    HTTPS_PROXY: wrong,
  });
  await until("the agent's refusal", () =>
    child.lines.some((line) => /PROXY_STATUS_40[17]/.test(line)),
  ).finally(() => child.end());
  return `${seen.join(", ")}; an agent says the first`;
}

async function exemptions(stage: ProxyStage): Promise<string> {
  const lists = [".example", "example", "ca.example:15012", "*"];
  for (const NO_PROXY of lists) {
    const asked = await inPod(stage, await request(stage), { HTTPS_PROXY: proxyUrl, NO_PROXY });
    if (!asked.stderr.includes("ENETUNREACH"))
      throw new Error(`NO_PROXY=${NO_PROXY}: ${saidBy(asked)}`);
  }
  for (const NO_PROXY of ["other.example", "10.77.0.0/16", "ca.example:443"]) {
    const asked = await inPod(stage, await request(stage), { https_proxy: proxyUrl, NO_PROXY });
    if (asked.exitCode !== 0) throw new Error(`NO_PROXY=${NO_PROXY}: ${saidBy(asked)}`);
  }
  const asked = await requireAsked(stage, "ca.example:15012");
  return `${lists.join(", ")} are direct, others are not; ${asked}`;
}
