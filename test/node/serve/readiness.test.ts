import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { serve } from "../../../src/node/serve/serve.ts";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { issuerWithKeys, randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const readinessOn = async (port: number): Promise<[number, { reasons: string[] }]> => {
  const response = await fetch(`http://127.0.0.1:${port}/readyz`);
  return [response.status, await response.json()];
};

test("is not ready before the port of callers is open, and says why", async () => {
  const folder = await temporaryFolder();
  const TLS_CERTIFICATE_FILE = join(folder, "tls.crt");
  const TLS_KEY_FILE = join(folder, "tls.key");
  const configuration = ServeConfiguration.parse({
    ISSUERS: [issuerWithKeys],
    STORE_DIRECTORY: join(folder, "store"),
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
    KEK: randomKek(),
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
    TLS_CERTIFICATE_FILE,
    TLS_KEY_FILE,
  });
  const server = await serve(configuration, {
    log: createEventRecorder(),
    clock: () => new Date(),
  });
  const { port } = server.monitoringAddress;
  await eventually(async () => {
    const [status, { reasons }] = await readinessOn(port);
    expect(status).toBe(503);
    expect(reasons).toEqual([expect.stringMatching(/^the serving certificate: .*tls\.crt/)]);
  });
  const { key, ca } = await createTlsIdentity();
  await writeFile(TLS_KEY_FILE, key);
  await writeFile(TLS_CERTIFICATE_FILE, ca);
  await server.address;
  await eventually(async () =>
    expect(await readinessOn(port)).toMatchObject([200, { reasons: [] }]),
  );
  await server.close(1000);
});
