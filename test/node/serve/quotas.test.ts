import { afterEach, expect, test } from "vitest";
import { describeQuotas, type PerMinute } from "../../contract/bounds/quotas.ts";
import { bearer, callWithClient, grpcWeb } from "../../contract/rpc-calls.ts";
import { issuerTables, type ServiceUnderTest } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

const started: ServedCa[] = [];

afterEach(async () => {
  await Promise.all(started.splice(0).map((served) => served.end()));
});

async function start(values: object): Promise<ServiceUnderTest & { readonly served: ServedCa }> {
  const key = await createTokenKey("ES256", "k1");
  const ISSUERS = [issuerTables.cluster, issuerTables.team].map((table) => ({
    ...table,
    jwks: jwksOf(key),
  }));
  // A bucket fills with time, so none passes once the server is ready.
  const time = createVirtualTime(new Date());
  const served = await serveCa({ ISSUERS, PLAINTEXT_LISTEN: "127.0.0.1:0", ...values }, time);
  started.push(served);
  const { port } = served.server.plaintextAddress ?? { port: 0 };
  return {
    served,
    send: (request) =>
      fetch(new Request(`http://127.0.0.1:${port}${new URL(request.url).pathname}`, request)),
    key,
    now: time.clock,
    takeAudits: () => served.log.audits.splice(0),
  };
}

describeQuotas(({ caller, issuer }: PerMinute) =>
  start({ CALLER_QUOTA: caller, ISSUER_QUOTA: issuer }),
);

test("who was refused by which quota is counted", async () => {
  const service = await start({ CALLER_QUOTA: 1 });
  const headers = await bearer(service);
  for (let i = 0; i < 3; i++) await callWithClient(grpcWeb, service, { csr: "junk" }, headers);
  const metrics = await service.served.monitored("/metrics");
  expect((await metrics.text()).split("\n")).toContain(
    'rampart_quota_refusals_total{quota="caller"} 2',
  );
});
