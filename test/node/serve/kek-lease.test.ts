import { expect, onTestFinished, test } from "vitest";
import { serve } from "../../../src/node/serve/serve.ts";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { unchangedConfiguration } from "../../testkit/ca/served-ca.ts";
import { issuerWithKeys } from "../../testkit/configuration.ts";
import { awsFault } from "../../testkit/key-services/aws-kms.ts";
import { listenWithKek } from "../../testkit/key-services/listening-kek.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

async function start() {
  const { service, secrets } = await listenWithKek();
  const time = createVirtualTime(new Date());
  return { service, time, values: { ISSUERS: [issuerWithKeys], ...secrets } };
}

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
