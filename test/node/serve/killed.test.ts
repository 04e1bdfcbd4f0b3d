import { X509Certificate } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { issuerTables } from "../../contract/service-under-test.ts";
import { servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import {
  type ServerProcess,
  serveToml,
  startServe,
} from "../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const bundleOf = async ({ monitoringPort }: ServerProcess): Promise<string> =>
  (await fetch(`http://127.0.0.1:${monitoringPort}/bundle.pem`)).text();

test("a server that is killed loses nothing that it answered, and ends politely when asked", async () => {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  const kek = randomKek();
  const key = await createTokenKey("ES256", "k1");
  const { issuer } = issuerTables.cluster;
  const values = { PROPAGATION_INTERVAL: "0s", ISSUERS: [{ issuer, jwks: jwksOf(key) }] };
  await writeFile(config, serveToml(join(folder, "store"), values));
  expect(await readFile(config, "utf8")).not.toContain(kek);
  const token = await mintAccountToken(key, issuer, "foo:bar", new Date());
  const headers = { authorization: `Bearer ${token}` };
  const { csrPem: csr } = await createWorkload();
  const server = await startServe(config, kek);
  const client = nativeClient(server.port, servedName, { roots: await bundleOf(server) });
  const outcome = await client.createCertificate({ csr }, headers);
  client.close();
  if (!("certChain" in outcome)) throw new Error(outcome.message);
  const [leaf = "", root = ""] = outcome.certChain;
  expect(new X509Certificate(leaf).verify(new X509Certificate(root).publicKey)).toBe(true);
  await server.end("SIGKILL");
  const last = await startServe(config, kek);
  expect(await bundleOf(last)).toBe(root);
  expect(await last.end()).toBe(0);
});
