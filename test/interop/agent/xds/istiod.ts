import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePorts } from "../../../testkit/network/free-ports.ts";
import { createCa } from "../../../testkit/pki/plugged-in.ts";
import { type Child, startChild } from "../../../testkit/programs/child-process.ts";
import { until } from "../../../testkit/time/until.ts";
import { statusOf } from "../processes/steady-load.ts";

/** A real istiod, whose configuration comes from files. */
export type Istiod = Awaited<ReturnType<typeof startIstiod>>;

interface IstiodOptions {
  readonly program: string;
  /** May hold `config` with its configuration. */
  readonly folder: string;
  /** The OIDC issuer of the proxies' tokens. */
  readonly issuer: string;
  readonly meshConfig?: object;
  readonly variables?: Readonly<Record<string, string>>;
  readonly words?: readonly string[];
}

/** Settings by which istiod leaves out what a stock Envoy lacks. */
const meshConfiguration = {
  enablePrometheusMerge: false,
  defaultProviders: {},
  trustDomain: "cluster.local",
};

/** The folder that has the place of the mounted Secret `cacerts`. */
export const authorityFolderIn = (folder: string): string => join(folder, "authority");

/** Starts it with the plugged-in CA of its folder, or else with one that is made now. */
export async function startIstiod(options: IstiodOptions) {
  const { program, folder, issuer, meshConfig, variables, words = [] } = options;
  const [xds = 0, http = 0, https = 0, monitoring = 0] = await freePorts(4);
  const authorityFolder = authorityFolderIn(folder);
  const rootFile = join(authorityFolder, "root-cert.pem");
  await mkdir(join(folder, "config"), { recursive: true });
  if (!existsSync(rootFile)) await writeAuthority(authorityFolder);
  const meshFile = join(folder, "mesh.yaml");
  await writeFile(meshFile, JSON.stringify({ ...meshConfiguration, ...meshConfig }));
  const logFile = join(folder, "istiod.log");
  const values = [
    "discovery",
    "--registries=",
    `--configDir=${join(folder, "config")}`,
    `--meshConfig=${meshFile}`,
    `--secureGRPCAddr=127.0.0.1:${xds}`,
    "--grpcAddr=",
    `--httpAddr=127.0.0.1:${http}`,
    `--httpsAddr=127.0.0.1:${https}`,
    `--monitoringAddr=127.0.0.1:${monitoring}`,
    "--ctrlz_port=0",
    "--log_target=stderr",
    ...words,
  ];
  const environment = {
    PILOT_ENABLE_METADATA_EXCHANGE: "false",
    PILOT_ENABLE_ALPN_FILTER: "false",
    ROOT_CA_DIR: authorityFolder,
    JWT_RULE: JSON.stringify({
      issuer,
      jwksUri: `${issuer}/openid/v1/jwks`,
      audiences: ["istio-ca"],
    }),
    ...variables,
  };
  const start = (): Child => startChild(program, values, { logFile, environment, folder });
  const ready = () =>
    until("istiod", async () => (await statusOf(`http://127.0.0.1:${http}/ready`)) === "200", 120);
  let child = start();
  await ready();
  return {
    /** Of its xDS and of its CA. */
    address: `localhost:${xds}`,
    /** A file with its root, and all others that it hands out: `root-cert.pem` of `cacerts`. */
    rootFile,
    logFile,
    async csrCount() {
      const metrics = await (await fetch(`http://127.0.0.1:${monitoring}/metrics`)).text();
      return Number(/^citadel_server_csr_count(?:\{.*\})? (\d+)/m.exec(metrics)?.[1] ?? 0);
    },
    async resume() {
      child = start();
      await ready();
    },
    async end() {
      await child.end();
    },
  };
}

/** Writes a plugged-in CA as the Secret `cacerts` has it. @returns Its root, PEM. */
export async function writeAuthority(folder: string): Promise<string> {
  const { pem, keyPem } = await createCa("O=istiod", {
    notBefore: new Date(),
    notAfter: new Date(Date.now() + 86_400_000),
  });
  await mkdir(folder, { recursive: true });
  await Promise.all([
    writeFile(join(folder, "root-cert.pem"), pem),
    writeFile(join(folder, "ca-cert.pem"), pem),
    writeFile(join(folder, "cert-chain.pem"), pem),
    writeFile(join(folder, "ca-key.pem"), keyPem, { mode: 0o600 }),
  ]);
  return pem;
}
