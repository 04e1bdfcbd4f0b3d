import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { launchServer, serveToml } from "../../testkit/programs/rampart-process.ts";

export const issuer = "https://cluster.test";

/** `rampart serve` for the programs in other places. */
export interface PlacedCa {
  /** Writes a token of an account, `namespace/name`, to a file. */
  readonly tokenFile: (account: string) => Promise<string>;
  readonly rootsFile: string;
  readonly end: () => Promise<unknown>;
}

export const tokenKey = await createTokenKey("ES256", "key-1");

export async function tokenIn(folder: string, account: string): Promise<string> {
  const file = join(folder, `token-${account.replace("/", "-")}`);
  const name = account.replace("/", ":");
  await writeFile(file, `${await mintAccountToken(tokenKey, issuer, name, new Date())}\n`);
  return file;
}

export async function startPlacedCa(
  folder: string,
  values: Readonly<Record<string, unknown>>,
): Promise<PlacedCa> {
  await mkdir(folder);
  const config = join(folder, "rampart.toml");
  const own = {
    ISSUERS: [{ issuer, jwks: jwksOf(tokenKey) }],
    PROPAGATION_INTERVAL: "0s",
    SERVING_NAMES: ["ca.example"],
    CRL: "on",
  };
  await writeFile(config, serveToml(join(folder, "store"), { ...own, ...values }));
  const serve = await launchServer("serve", config, { KEK: randomKek() });
  const bundle = await fetch(`http://${serve.monitoringAddress}/bundle.pem`);
  const rootsFile = join(folder, "roots.pem");
  await writeFile(rootsFile, await bundle.text());
  return {
    tokenFile: (account) => tokenIn(folder, account),
    rootsFile,
    end: () => serve.end(),
  };
}
