import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { launchServer, runRampart } from "../../testkit/programs/rampart-process.ts";

const issuer = "https://cluster.test";
const signerName = "mesh.example.com/service";

/** `rampart serve` for the programs in other places. */
export interface PlacedCa {
  readonly port: number;
  readonly bundle: () => Promise<string>;
  /** Writes a token of an account, `namespace/name`, to a file. */
  readonly tokenFile: (account: string) => Promise<string>;
  readonly rootsFile: string;
  /** How many certificates it has issued by each proof. */
  readonly proofs: () => Readonly<Record<"token" | "certificate", number>>;
  /** Runs a verb on its store. */
  readonly verb: (...words: string[]) => Promise<string>;
  readonly end: () => Promise<unknown>;
}

export const tokenKey = await createTokenKey("ES256", "key-1");
export const issuerTable = {
  issuer,
  gateways: [{ account: "mesh/gateway", dns_names: ["gateway.example"] }],
  cluster_signers: [{ account: "mesh/signer", namespaces: ["shop"], dns_names: ["*.shop.svc"] }],
};

export async function tokenIn(folder: string, account: string): Promise<string> {
  const file = join(folder, `token-${account.replace("/", "-")}`);
  const name = account.replace("/", ":");
  await writeFile(file, `${await mintAccountToken(tokenKey, issuer, name, new Date())}\n`);
  return file;
}

/** @param host Where it listens. */
export async function startPlacedCa(
  folder: string,
  host: string,
  values: Readonly<Record<string, unknown>> = {},
): Promise<PlacedCa> {
  await mkdir(folder);
  const config = join(folder, "rampart.toml");
  await writeFile(
    config,
    stringify({
      ISSUERS: [{ ...issuerTable, jwks: jwksOf(tokenKey) }],
      INCEPTION_DATE: new Date().toISOString().slice(0, 10),
      PROPAGATION_INTERVAL: "0s",
      SERVING_NAMES: ["ca.example", "dual.example", "istiod.istio-system.svc"],
      CRL: "on",
      STORE_DIRECTORY: join(folder, "store"),
      LISTEN: `${host}:0`,
      MONITORING_LISTEN: "127.0.0.1:0",
      ...values,
    }),
  );
  const environment = { KEK: randomKek() };
  const serve = await launchServer("serve", config, environment);
  const bundle = async () => (await fetch(`http://${serve.monitoringAddress}/bundle.pem`)).text();
  const rootsFile = join(folder, "roots.pem");
  await writeFile(rootsFile, await bundle());
  const issuedBy = (proof: string): number =>
    serve.lines.filter((line) => line.includes(`"proof":"${proof}"`)).length;
  return {
    port: serve.port,
    bundle,
    proofs: () => ({ token: issuedBy("token"), certificate: issuedBy("certificate") }),
    tokenFile: (account) => tokenIn(folder, account),
    rootsFile,
    verb: (...words) => runRampart([...words, "--config", config], { environment }),
    end: () => serve.end(),
  };
}

export { signerName };
