import { afterAll } from "vitest";
import { describeCertificateService } from "../../contract/certificate-service.ts";
import type { ReviewingService } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey } from "../../testkit/callers/tokens.ts";
import { serveReviewingApi } from "../../testkit/kubernetes/reviewing-server.ts";
import { connectHttp2, type Http2Client } from "../../testkit/network/http2-client.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

const api = serveReviewingApi();
let served: ServedCa;
let client: Http2Client;

afterAll(async () => {
  client.session.destroy();
  await served.end();
});

async function startServe(): Promise<ReviewingService> {
  const key = await createTokenKey("ES256", "k1");
  // One caller makes most of the calls of the contract.
  const values = { ...api.values(key), CALLER_QUOTA: 1_000_000 };
  // The contract counts one root.
  // By a clock that goes on, each call would load the store.
  const time = createVirtualTime(new Date());
  served = await serveCa(values, time, "tenant");
  client = connectHttp2(`https://127.0.0.1:${served.port}`, {
    ca: await served.bundle(),
    servername: servedName,
  });
  return {
    send: client.send,
    key,
    now: time.clock,
    takeAudits: () => served.log.audits.splice(0),
    questions: async () => api.questions(),
  };
}

describeCertificateService(startServe, {
  hasTrailers: true,
  isIdempotent: true,
  peer: "127.0.0.1",
});
