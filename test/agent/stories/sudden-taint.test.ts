import { X509Certificate } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { environmentIn, startTestAgent } from "../../testkit/agent/running-agent.ts";
import { serveCa } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createOperatorFolder, rampartHere } from "../../testkit/programs/command-line.ts";
import { serveToml } from "../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const issuer = "https://a.test";

// Istio's own package for a virtual machine: the certificate that the agent wrote authenticates the next request.
test("a machine with a certificate and a token outlives the sudden taint of the certificate's authority", async () => {
  const tokenKey = await createTokenKey("ES256", "key-1");
  const ISSUERS = [{ issuer, jwks: jwksOf(tokenKey) }];
  const values = { SERVING_NAMES: ["localhost"], ISSUERS };
  const KEK = randomKek();
  const server = await serveCa({ ...values, KEK });
  onTestFinished(server.end);
  const operator = await createOperatorFolder(serveToml(server.storeDirectory, values));
  const folder = await temporaryFolder();
  await writeFile(join(folder, "root-cert.pem"), await server.bundle());
  await writeFile(
    join(folder, "token"),
    await mintAccountToken(tokenKey, issuer, "foo:bar", new Date()),
  );
  const certificates = join(folder, "certs");
  const { agent, event } = await startTestAgent({
    ...environmentIn(folder, `grpc+https://localhost:${server.port}`),
    PROV_CERT: certificates,
    OUTPUT_CERTS: certificates,
  });
  await Promise.all([event("bundle-read"), event("files-written")]);
  const readiness = await fetch(`http://127.0.0.1:${server.monitoringPort}/readyz`);
  const { authority } = (await readiness.json()) as { authority: string };
  const words = `authority taint ${authority} --root immediately --yes -c ${operator.config}`;
  expect((await rampartHere(operator, words, { KEK })).code).toBe(0);
  await event("authority-withdrawn");
  await event("certificate-obtained", 2);
  await eventually(async () => {
    const after = new X509Certificate(await server.bundle());
    const leaf = new X509Certificate(await readFile(join(certificates, "cert-chain.pem")));
    expect(leaf.verify(after.publicKey)).toBe(true);
  });
  await eventually(() => expect(agent.status()).toMatchObject({ isReady: true, reasons: [] }));
  expect(server.log.operations.map(({ event }) => event)).not.toContain(
    "client-certificate-refused",
  );
});
