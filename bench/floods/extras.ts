import "reflect-metadata/lite";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
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
  if (method !== "tokens of a silent issuer") return { end };
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  const table = `[[ISSUERS]]\nissuer = "${issuers.silent}"\ncluster = "silent"\njwks_uri = "http://127.0.0.1:${port}/keys"\n`;
  return { issuers: table, end: () => void silent.close() };
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
