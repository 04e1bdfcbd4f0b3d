import { expect, onTestFinished, test } from "vitest";
import { startHttpCa } from "../../testkit/agent/http-ca.ts";
import { runAgent } from "../../testkit/agent/running-agent.ts";
import { attributesOf, playCollector } from "../../testkit/observability/collector.ts";

test("an agent sends its metrics to a collector, the last time at its end", async () => {
  const ca = await startHttpCa({});
  onTestFinished(ca.close);
  const collector = await playCollector();
  const { agent, event } = await runAgent(ca, {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_SERVICE_NAME: "shop-agent",
  });
  await event("certificate-obtained");
  await agent.close();
  const { dataPoints } = collector.metrics.get("istio_agent_num_outgoing_requests").sum;
  expect(dataPoints).toMatchObject([{ asDouble: 1 }]);
  expect(dataPoints.map(attributesOf)).toEqual([{ request_type: "csr" }]);
  expect(collector.metrics.has("istio_agent_cert_expiry_seconds")).toBe(true);
  expect(collector.resource()["service.name"]).toBe("shop-agent");
  expect(new Set(collector.requests.map(({ path }) => path))).toEqual(new Set(["/v1/metrics"]));
});
