import { X509Certificate } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { issuerTables } from "../contract/service-under-test.ts";
import { startTestAgent } from "../testkit/agent/running-agent.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../testkit/callers/tokens.ts";
import { randomKek } from "../testkit/configuration.ts";
import { createOperatorFolder, rampart } from "../testkit/programs/command-line.ts";
import { serveToml, startServe } from "../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";
import { eventually } from "../testkit/time/eventually.ts";

const tokenKey = await createTokenKey("ES256", "key-1");
const { issuer } = issuerTables.cluster;

// Istio's own package for a virtual machine: the certificate that the agent wrote authenticates the next request.
test("a machine with a certificate and a token outlives the sudden taint of the certificate's authority", async () => {
  const kek = randomKek();
  const folder = await temporaryFolder();
  const ISSUERS = [{ issuer, jwks: jwksOf(tokenKey) }];
  const toml = serveToml(join(folder, "store"), { SERVING_NAMES: ["localhost"], ISSUERS });
  const operator = await createOperatorFolder(toml);
  const server = await startServe(operator.config, kek);
  const monitoring = `http://127.0.0.1:${server.monitoringPort}`;
  const roots = async () => (await fetch(`${monitoring}/bundle.pem`)).text();
  const rootFile = join(folder, "root-cert.pem");
  await writeFile(rootFile, await roots());
  const certificates = join(folder, "certs");
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, await mintAccountToken(tokenKey, issuer, "foo:bar", new Date()));
  const { agent, event, events } = await startTestAgent({
    CA_ADDR: `grpc+https://localhost:${server.port}`,
    CA_ROOT_CA: rootFile,
    PROV_CERT: certificates,
    OUTPUT_CERTS: certificates,
    POD_NAMESPACE: "foo",
    SERVICE_ACCOUNT: "bar",
    RAMPART_TOKEN_FILE: tokenFile,
    RAMPART_SDS_SOCKET: join(folder, "sds"),
    RAMPART_STATUS_ADDR: "127.0.0.1:0",
  });
  await Promise.all([event("bundle-read"), event("files-written")]);
  for (let turn = 1; turn <= 2; turn++) {
    const readiness = await fetch(`${monitoring}/readyz`);
    const { authority } = (await readiness.json()) as { authority: string };
    const words = `authority taint ${authority} --root immediately --yes -c ${operator.config}`;
    expect((await rampart(operator, words, { KEK: kek })).code).toBe(0);
    await event("authority-withdrawn", turn);
    await event("certificate-obtained", turn + 1);
    await eventually(async () => {
      const after = new X509Certificate(await roots());
      const leaf = new X509Certificate(await readFile(join(certificates, "cert-chain.pem")));
      expect(leaf.verify(after.publicKey)).toBe(true);
    });
  }
  expect(events.filter(({ event }) => /^renewal-failed|^csr-retried/.test(event))).toEqual([]);
  await eventually(() => expect(agent.status()).toMatchObject({ isReady: true, reasons: [] }));
  expect(server.lines.join()).not.toContain("client-certificate-refused");
});
