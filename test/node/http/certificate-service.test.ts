import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll } from "vitest";
import { describeCertificateService } from "../../contract/certificate-service.ts";
import { createReviewingApi } from "../../contract/reviewing-api.ts";
import {
  apiCredentialName,
  issuerTables,
  type ReviewingService,
  reviewedTables,
} from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { connectHttp2, type Http2Client } from "../../testkit/network/http2-client.ts";

const api = createReviewingApi();

const keyServer = createServer((request, response) => {
  if (request.url === "/down") response.writeHead(503).end();
  if (request.method === "POST") void answerReview(request, response);
});

async function answerReview(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { status, body } = api.answer(request.url ?? "", await text(request));
  response.writeHead(status, { "content-type": "application/json" }).end(body);
}

let served: ServedCa;
let client: Http2Client;

afterAll(async () => {
  client.session.destroy();
  await served.end();
  keyServer.close();
  keyServer.closeAllConnections();
});

async function startServe(): Promise<ReviewingService> {
  await new Promise<void>((resolve) => keyServer.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(keyServer.address() as AddressInfo).port}`;
  const key = await createTokenKey("ES256", "k1");
  served = await serveCa({
    ISSUERS: [
      { ...issuerTables.cluster, jwks: jwksOf(key) },
      { ...issuerTables.team, jwks: JSON.stringify(jwksOf(key)) },
      { ...issuerTables.hanging, jwks_uri: `${origin}/hanging` },
      { ...issuerTables.stalled, jwks_uri: `${origin}/stalled` },
      { ...issuerTables.down, jwks_uri: `${origin}/down` },
      ...reviewedTables(origin).map((table) => ({ ...table, jwks: jwksOf(key) })),
    ],
    [apiCredentialName]: "credential",
    // One caller makes most of the calls of the contract.
    CALLER_QUOTA: 1_000_000,
  });
  client = connectHttp2(`https://127.0.0.1:${served.port}`, {
    ca: await served.bundle(),
    servername: servedName,
  });
  return {
    send: client.send,
    key,
    now: () => new Date(),
    takeAudits: () => served.log.audits.splice(0),
    questions: async () => api.questions(),
  };
}

describeCertificateService(startServe, { hasTrailers: true, peer: "127.0.0.1" });
