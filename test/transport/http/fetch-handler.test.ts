import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll } from "vitest";
import { describeCertificateService } from "../../contract/certificate-service.ts";
import { issuerTables, type ServiceUnderTest } from "../../contract/service-under-test.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";

const keyServer = createServer((request, response) => {
  if (request.url === "/down") response.writeHead(503).end();
});

afterAll(() => {
  keyServer.close();
  keyServer.closeAllConnections();
});

async function startInProcess(): Promise<ServiceUnderTest> {
  await new Promise<void>((resolve) => keyServer.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(keyServer.address() as AddressInfo).port}`;
  const key = await createTokenKey("ES256", "k1");
  const { app, found, log, now } = await startCa({
    ISSUERS: [
      { ...issuerTables.cluster, jwks: jwksOf(key) },
      { ...issuerTables.team, jwks: JSON.stringify(jwksOf(key)) },
      { ...issuerTables.hanging, jwks_uri: `${origin}/hanging` },
      { ...issuerTables.stalled, jwks_uri: `${origin}/stalled` },
      { ...issuerTables.down, jwks_uri: `${origin}/down` },
    ],
  });
  await found();
  return {
    send: async (request) => app.fetch(request),
    key,
    now,
    takeAudits: () => log.audits.splice(0),
  };
}

describeCertificateService(startInProcess);
