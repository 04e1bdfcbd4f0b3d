import "reflect-metadata/lite";
import { fork } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { SubjectKeyIdentifierExtension, X509Certificate } from "@peculiar/x509";
import { issuers } from "./forged-token.ts";
import type { Extras, Server } from "./servers.ts";

/** What a method needs of a CA besides what every row has. */
export async function extrasFor(method: string): Promise<Extras & { readonly end: () => void }> {
  const end = (): void => {};
  if (method.startsWith("CRLs")) return { keys: 'CRL = "on"', end };
  if (method.startsWith("tiles")) {
    const keys = 'LOG_ORIGIN = "bench.example/log"\nLOG_TILES = "public"\nLOG_INTERVAL = "1s"';
    return { keys, end };
  }
  if (method === hostileApi) return hostileTenants();
  if (method !== "tokens of a silent issuer") return { end };
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  const table = `[[ISSUERS]]\nissuer = "${issuers.silent}"\ncluster = "silent"\njwks_uri = "http://127.0.0.1:${port}/keys"\n`;
  return { issuers: table, end: () => void silent.close() };
}

/** The method whose tokens have the API server of another tenant asked. */
export const hostileApi = "a hostile API server";

/** Tenants of the CA whose API servers answer what takes most memory: lists, watches, reviews, a push. */
async function hostileTenants(): Promise<Extras & { readonly end: () => void }> {
  const child = fork(fileURLToPath(new URL("hostile-api.ts", import.meta.url)));
  const [port] = await once(child, "message");
  const credential = "CLUSTER_CREDENTIAL_HOSTILE";
  const table = (tenant: string, keys: string, access: string): string => `
[[ISSUERS]]
issuer = "${tenant === "review" ? issuers.hostile : `https://${tenant}.example`}"
cluster = "${tenant}"
${keys}
[ISSUERS.kubernetes]
server = "http://127.0.0.1:${port}/${tenant}"
credential = "${credential}"
${access}
`;
  const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const key = { ...publicKey.export({ format: "jwk" }), kid: "a", alg: "ES256" };
  const keys = `jwks = '${JSON.stringify({ keys: [key] })}'`;
  const watched = `${keys}\ntrusted_node_accounts = ["a/b"]`;
  const tables = [
    ...["dense", "watch", "names"].map((tenant) => table(tenant, watched, "")),
    table("review", "", 'review = "instead-of-keys"'),
    table("push", keys, "deliver_roots = true"),
  ];
  return { issuers: tables.join(""), secrets: { [credential]: "a" }, end: () => child.kill() };
}

/** As many as `REVOKED` takes: the CRL has 360,000 octets. */
const tables = 100;
const serialsOfTable = 100;

/** Revokes certificates in the configuration of a CA that runs, and waits for its CRL. */
export async function revokeMany(config: string, { plaintextPort }: Server): Promise<void> {
  const url = `http://127.0.0.1:${plaintextPort}`;
  const bundle = await (await fetch(`${url}/bundle.pem`)).text();
  const extension = new X509Certificate(bundle).getExtension(SubjectKeyIdentifierExtension);
  const [since, until] = [0, 86_400_000].map((later) => new Date(Date.now() + later).toISOString());
  const revoked = Array.from({ length: tables }, () => ({
    authority: extension?.keyId,
    serials: Array.from({ length: serialsOfTable }, () => `01${randomBytes(15).toString("hex")}`),
    since,
    until,
  }));
  const before = await readFile(config, "utf8");
  await writeFile(config, `REVOKED = ${JSON.stringify(JSON.stringify(revoked))}\n${before}`);
  for (let octets = 0; octets < 100_000; await sleep(500))
    octets = (await (await fetch(`${url}/crl.pem`)).arrayBuffer()).byteLength;
}
