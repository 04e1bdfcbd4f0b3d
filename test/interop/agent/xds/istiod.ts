import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePorts } from "../../../testkit/network/free-ports.ts";
import { createCa } from "../../../testkit/pki/plugged-in.ts";
import { type Child, startChild } from "../../../testkit/programs/child-process.ts";
import { until } from "../../../testkit/time/until.ts";
import { statusOf } from "../processes/steady-load.ts";

/** A real istiod that is no CA of the mesh: its configuration comes from files. */
export interface Istiod {
  /** `host:port` of its xDS. */
  readonly address: string;
  /** A file with the root of its serving certificate. */
  readonly rootFile: string;
  /** Ends it, and starts it again on the same port. */
  readonly restart: () => Promise<void>;
  readonly end: () => Promise<void>;
}

/** The parts of a real istiod. */
interface IstiodOptions {
  readonly program: string;
  /** Holds `config` with its configuration. */
  readonly folder: string;
  /** The OIDC issuer of the proxies' tokens. */
  readonly issuer: string;
}

/** Settings by which istiod leaves out what a stock Envoy lacks. */
const meshConfiguration = {
  enablePrometheusMerge: false,
  defaultProviders: {},
  trustDomain: "cluster.local",
};

export async function startIstiod({ program, folder, issuer }: IstiodOptions): Promise<Istiod> {
  const [xds = 0, http = 0, https = 0, monitoring = 0] = await freePorts(4);
  const authorityFolder = join(folder, "authority");
  const rootFile = await writeAuthority(authorityFolder);
  const meshFile = join(folder, "mesh.yaml");
  await writeFile(meshFile, JSON.stringify(meshConfiguration));
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
  };
  const start = (): Child =>
    startChild(program, values, { logFile: join(folder, "istiod.log"), environment, folder });
  const ready = () =>
    until("istiod", async () => (await statusOf(`http://127.0.0.1:${http}/ready`)) === "200", 120);
  let child = start();
  await ready();
  return {
    address: `localhost:${xds}`,
    rootFile,
    async restart() {
      await child.end();
      child = start();
      await ready();
    },
    async end() {
      await child.end();
    },
  };
}

/** Writes a plugged-in CA for istiod's own serving certificate. @returns The file of its root. */
async function writeAuthority(folder: string): Promise<string> {
  const { pem, keyPem } = await createCa("O=istiod", {
    notBefore: new Date(),
    notAfter: new Date(Date.now() + 86_400_000),
  });
  const rootFile = join(folder, "root-cert.pem");
  await mkdir(folder, { recursive: true });
  await Promise.all([
    writeFile(rootFile, pem),
    writeFile(join(folder, "ca-cert.pem"), pem),
    writeFile(join(folder, "cert-chain.pem"), pem),
    writeFile(join(folder, "ca-key.pem"), keyPem, { mode: 0o600 }),
  ]);
  return rootFile;
}
