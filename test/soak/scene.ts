import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { randomKek } from "../testkit/configuration.ts";
import { lastingFolder } from "../testkit/temporary-folder.ts";
import type { Way } from "./call.ts";
import { type IssuerServer, startIssuers } from "./issuers.ts";
import { type Program, startProgram } from "./program.ts";

/** A mesh with short phases: `rampart serve`, and `rampart gateway` in front of it. */
export interface Scene {
  readonly issuers: IssuerServer["issuers"];
  readonly serve: Program;
  readonly gateway: Program;
  /** The way of the n-th caller: half of them through the gateway, from eight addresses. */
  readonly wayOf: (n: number) => Way;
  /** Reads the trust bundle again, and gives the gateway a fresh token. */
  readonly refresh: () => Promise<void>;
  /** How many roots the trust bundle has had. */
  readonly rootsSeen: () => number;
  /** @returns The programs that did not end when they were told to. */
  readonly end: () => Promise<readonly string[]>;
}

const issuerCount = 4;
const serverName = "istiod.istio-system.svc";
const gatewayAccount = { namespace: "soak", name: "gateway" };

/** A root signs for three minutes, and is prepared and kept for as long as leaves need. */
const phases = {
  DEFAULT_WORKLOAD_CERT_TTL: "80s",
  MAX_WORKLOAD_CERT_TTL: "80s",
  PROPAGATION_INTERVAL: "10s",
  AUTHORITY_LIFETIME: "360s",
};

const listen = { LISTEN: "127.0.0.1:0", MONITORING_LISTEN: "127.0.0.1:0" };

export async function startScene(): Promise<Scene> {
  const folder = await lastingFolder();
  const { issuers, close } = await startIssuers(issuerCount);
  const serve = await startServe(folder, issuers);
  const bundleUrl = `http://127.0.0.1:${serve.monitoringPort}/bundle.pem`;
  const seen = new Set<string>();
  const tokenFile = join(folder, "token");
  let trustBundle = "";

  async function refresh(): Promise<void> {
    trustBundle = await (await fetch(bundleUrl)).text();
    for (const root of trustBundle.split(/(?<=-----END CERTIFICATE-----\n)/)) seen.add(root);
    const { namespace, name } = gatewayAccount;
    await writeFile(tokenFile, (await issuers[0]?.mint(`${namespace}:${name}`)) ?? "");
  }

  await refresh();
  const gateway = await startGateway(folder, tokenFile, serve.plaintextPort);
  return {
    issuers,
    serve,
    gateway,
    wayOf: (n) => ({
      server: n % 2 === 0 ? "serve" : "gateway",
      port: n % 2 === 0 ? serve.port : gateway.port,
      localAddress: `127.0.0.${2 + (n % 8)}`,
      serverName,
      trustBundle,
    }),
    refresh,
    rootsSeen: () => seen.size,
    end: async () => {
      const [serveEnded, gatewayEnded] = await Promise.all([serve.end(), gateway.end()]);
      await close();
      return [...(serveEnded ? [] : ["serve"]), ...(gatewayEnded ? [] : ["gateway"])];
    },
  };
}

async function startServe(folder: string, issuers: IssuerServer["issuers"]): Promise<Program> {
  const { namespace, name } = gatewayAccount;
  const gateways = [{ account: `${namespace}/${name}`, dns_names: [serverName] }];
  const file = join(folder, "rampart.toml");
  const values = {
    STORE_DIRECTORY: join(folder, "store"),
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PLAINTEXT_LISTEN: "127.0.0.1:0",
    ...listen,
    ...phases,
    ISSUERS: issuers.map(({ name: issuer, keysUrl }, i) => ({
      issuer,
      jwks_uri: keysUrl,
      ...(i === 0 && { gateways }),
    })),
  };
  await writeFile(file, stringify(values));
  const KEK = randomKek();
  return startProgram(["serve", "--config", file], { KEK });
}

async function startGateway(folder: string, tokenFile: string, port: number): Promise<Program> {
  const file = join(folder, "gateway.toml");
  const values = { UPSTREAM: `http://127.0.0.1:${port}`, TOKEN_FILE: tokenFile, ...listen };
  await writeFile(file, stringify(values));
  return startProgram(["gateway", "--config", file], {});
}
