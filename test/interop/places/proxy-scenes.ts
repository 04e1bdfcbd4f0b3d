import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createServer as createHttpServer, request as httpRequest } from "node:http";
import { createServer } from "node:https";
import { join } from "node:path";
import { stringify } from "smol-toml";
import type { AgentStatus } from "../../../src/agent/agent-status.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { jwksOf } from "../../testkit/callers/tokens.ts";
import { startService } from "../../testkit/key-services/key-service.ts";
import { playVault, vaultToken } from "../../testkit/key-services/vault-transit.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { type Child, run, startChild } from "../../testkit/programs/child-process.ts";
import { launchRampart, program } from "../../testkit/programs/rampart-process.ts";
import { s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { until } from "../../testkit/time/until.ts";
import { type Outcome, playRows } from "../outcome-table.ts";
import { issuer, startPlacedCa, tokenIn, tokenKey } from "./ca.ts";
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
  const ca = await startPlacedCa(join(folder, "ca"), { LISTEN: `${servers.v4}:15012` });
  const neighbours = await startNeighbours(folder);
  const stage: ProxyStage = { folder, pod, proxy, ca, neighbours };
  const scenes: readonly (readonly [string, (stage: ProxyStage) => Promise<string>])[] = [
    ["an agent: certificate, bundle, CRLs", agent],
    ["serve: an issuer's keys, a KEK in Vault, its store in a bucket", serve],
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
    hosts: ["keys.example", "vault.example", "s3.example"],
    notBefore: new Date(Date.now() - day),
    notAfter: new Date(Date.now() + day),
  });
  const key = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const rootsFile = join(folder, "neighbours.pem");
  await writeFile(rootsFile, authority.pem);
  const [vault, s3, keys] = await Promise.all([
    startService(await playVault()),
    startS3Api(),
    listenOnLoopback(
      createHttpServer((_, response) => response.end(JSON.stringify(jwksOf(tokenKey)))),
    ),
  ]);
  const ports: Readonly<Record<string, string>> = {
    "keys.example": keys.host,
    "vault.example": vault.host,
    "s3.example": new URL(s3.origin).host,
  };
  const server = createServer({ key, cert }, (request, response) => {
    const { method, url, headers } = request;
    const to = ports[headers.host ?? ""] ?? "127.0.0.1:1";
    const options = { method, headers, setHost: false };
    const passed = httpRequest(`http://${to}${url}`, options, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    request.pipe(passed);
  });
  server.listen(443, servers.v4);
  await once(server, "listening");
  return {
    rootsFile,
    s3,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await Promise.all([vault.close(), s3.close(), keys.close()]);
    },
  };
}

/** Starts `rampart` in the pod. */
const start = (
  { pod }: Pick<ProxyStage, "pod">,
  words: readonly string[],
  environment: NodeJS.ProcessEnv,
): Child =>
  launchRampart(words, { environment, command: [...pod.inside, process.execPath, program] });

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
    CA_ROOT_CA: ca.rootsFile,
    POD_NAMESPACE: "shop",
    SERVICE_ACCOUNT: "cart",
    RAMPART_TOKEN_FILE: await ca.tokenFile("shop/cart"),
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
  const file = join(folder, "serve-behind.toml");
  const values = {
    ISSUERS: [{ issuer, jwks_uri: "https://keys.example/jwks" }],
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "10s",
    STORE: "s3",
    STORE_BUCKET: bucket,
    S3_ENDPOINT: "https://s3.example",
    S3_REGION: region,
    S3_CA_FILE: neighbours.rootsFile,
    SERVING_NAMES: ["gateway.example"],
    LISTEN: `${podAddress}:15012`,
    MONITORING_LISTEN: `${podAddress}:15014`,
  };
  await writeFile(file, stringify(values));
  const key = "hashivault://vault.example/transit/keys/rampart";
  const wrapped = await inPod(stage, ["kek", "wrap", "k1", key, "--config", file], environment);
  if (wrapped.exitCode !== 0) throw new Error(`kek wrap ${saidBy(wrapped)}`);
  const KEK = wrapped.stdout.trim();
  const child = start(stage, ["serve", "-c", file], { ...environment, KEK });
  try {
    await until("serve is ready", async () => {
      const response = await fetch(`http://${podAddress}:15014/readyz`).catch(() => undefined);
      return response?.status === 200;
    }).catch((error) => {
      throw new Error(`${error}: ${child.lines.slice(-2)}`);
    });
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
    return await requireAsked(stage, "keys.example:443", "s3.example:443", "vault.example:443");
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
  ...["certificate", "request", "--url", "https://ca.example:15012", "--ca", ca.rootsFile],
  ...["--token-file", await ca.tokenFile("shop/cart"), "--out", join(folder, "requested")],
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
