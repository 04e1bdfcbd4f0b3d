import { expect, test } from "vitest";
import { serve } from "../../../src/node/serve/serve.ts";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { serveCa } from "../../testkit/ca/served-ca.ts";
import { issuerWithKeys, randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const ISSUERS = [issuerWithKeys];

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
