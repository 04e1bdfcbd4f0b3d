import { once } from "node:events";
import { connect } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { serve } from "../../../src/node/serve/serve.ts";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { serveCa } from "../../testkit/ca/served-ca.ts";
import { issuerWithKeys, randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const ISSUERS = [issuerWithKeys];

test("a server that waits for a call under way is not ready, and its probes say that it ends", async () => {
  const ca = await serveCa({ ISSUERS, PLAINTEXT_LISTEN: "127.0.0.1:0" });
  const caller = connect(ca.server.plaintextAddress?.port ?? 0, "127.0.0.1");
  onTestFinished(() => void caller.destroy());
  const path = "/istio.v1.auth.IstioCertificateService/CreateCertificate";
  caller.write(`POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n1234`);
  const metrics = async () => (await fetch(`http://127.0.0.1:${ca.monitoringPort}/metrics`)).text();
  await eventually(async () => expect(await metrics()).toMatch(/^rampart_requests_under_way 1$/m));
  const ended = ca.server.close(60_000);
  const answer = await fetch(`http://127.0.0.1:${ca.monitoringPort}/readyz`);
  expect(answer.status).toBe(503);
  expect(await answer.json()).toMatchObject({ reasons: ["the program is ending"] });
  caller.destroy();
  await once(caller, "close");
  await ended;
});

test("a server that cannot start ends its log, and another one starts on the same store", async () => {
  const first = await serveCa({ ISSUERS });
  const { port } = first.server.monitoringAddress;
  const values = {
    ISSUERS,
    STORE_DIRECTORY: await temporaryFolder(),
    LISTEN: "127.0.0.1:0",
    KEK: randomKek(),
    LOG_ORIGIN: "log.example.com/2026",
    PROPAGATION_INTERVAL: "0s",
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
  };
  const start = (MONITORING_LISTEN: string) =>
    serve(ServeConfiguration.parse({ ...values, MONITORING_LISTEN }), {
      log: createEventRecorder(),
      clock: () => new Date(),
    });
  await expect(start(`127.0.0.1:${port}`)).rejects.toThrow("EADDRINUSE");
  const second = await start("127.0.0.1:0");
  await second.address;
  await Promise.all([first.end(), second.close(1000)]);
});
