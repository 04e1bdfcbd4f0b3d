import { expect, onTestFinished, test } from "vitest";
import { serve } from "../../../src/node/serve/serve.ts";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { serveCa, unchangedConfiguration } from "../../testkit/ca/served-ca.ts";
import { issuerWithKeys } from "../../testkit/configuration.ts";
import { awsCredential, awsFault } from "../../testkit/key-services/aws-kms.ts";
import { listenWithKek } from "../../testkit/key-services/listening-kek.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

const hour = 3600;

async function start() {
  const { service, secrets } = await listenWithKek();
  const time = createVirtualTime(new Date());
  return { service, time, values: { ISSUERS: [issuerWithKeys], ...secrets } };
}

test("serve opens its KEK once, and says when a service does not open it again", async () => {
  const { service, time, values } = await start();
  const ca = await serveCa(values, time);
  onTestFinished(ca.end);
  const url = `http://127.0.0.1:${ca.monitoringPort}`;
  const readiness = async () => (await fetch(`${url}/readyz`)).status;
  const metrics = async () => (await fetch(`${url}/metrics`)).text();
  expect(service.asked).toEqual(["Decrypt"]);
  expect(await readiness()).toBe(200);
  expect(await metrics()).toMatch(/^rampart_kek_held_until_timestamp [\d.e+]+$/m);
  service.fault = awsFault("DisabledException");
  time.pass(hour / 2);
  expect(await readiness()).toBe(200);
  await time.passUntil(() =>
    expect(ca.log.operations.map(({ event }) => event)).toContain("kek-unavailable"),
  );
  time.pass(hour);
  const response = await fetch(`${url}/readyz`);
  expect([response.status, await response.text()]).toEqual([
    503,
    expect.stringContaining("has disabled the key (status 400, DisabledException)"),
  ]);
  expect((await fetch(`${url}/bundle.pem`)).status).toBe(503);
  service.fault = undefined;
  time.pass(10);
  expect(await readiness()).toBe(200);
  expect(ca.log.operations.map(String).join()).not.toContain(awsCredential);
});

test.each([
  ["without a log", {}],
  ["with a log", { LOG_ORIGIN: "log.example.com/2026" }],
])("serve that starts in an outage refuses, and goes on by itself after it, %s", async (_, log) => {
  const { service, time, values } = await start();
  service.fault = awsFault("KMSInternalException", "", 500);
  const configuration = ServeConfiguration.parse({
    STORE_DIRECTORY: await temporaryFolder(),
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
    INCEPTION_DATE: time.clock().toISOString().slice(0, 10),
    ...values,
    ...log,
  });
  const events = createEventRecorder();
  const server = await serve(configuration, {
    log: events,
    clock: time.clock,
    pause: time.pause,
    configurationStatus: () => unchangedConfiguration,
  });
  onTestFinished(() => server.close(1000));
  const url = `http://127.0.0.1:${server.monitoringAddress.port}`;
  const ready = await fetch(`${url}/readyz`);
  expect([ready.status, await ready.text()]).toEqual([503, expect.stringContaining("is not open")]);
  const bundle = await fetch(`${url}/bundle.pem`);
  expect([bundle.status, bundle.headers.get("retry-after")]).toEqual([503, expect.anything()]);
  service.fault = undefined;
  const { port } = await time.passWhile(server.address);
  expect(port).toBeGreaterThan(0);
  expect((await fetch(`${url}/readyz`)).status).toBe(200);
});
