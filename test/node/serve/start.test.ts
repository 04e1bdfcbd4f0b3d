import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { beginServe, serveCa } from "../../testkit/ca/served-ca.ts";
import { issuerWithKeys, randomKek } from "../../testkit/configuration.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const ISSUERS = [issuerWithKeys];
const LOG_ORIGIN = "log.example.com/2026";

test("a server that cannot start ends its log, and another one starts on the same store", async () => {
  const first = await serveCa({ ISSUERS });
  const STORE_DIRECTORY = await temporaryFolder();
  const values = { ISSUERS, STORE_DIRECTORY, KEK: randomKek(), LOG_ORIGIN };
  const MONITORING_LISTEN = `127.0.0.1:${first.monitoringPort}`;
  await expect(beginServe({ ...values, MONITORING_LISTEN })).rejects.toThrow("EADDRINUSE");
  const second = await serveCa(values);
  await Promise.all([first.end(), second.end()]);
});

test("does not start with a log that may not begin", async () => {
  const late = { ISSUERS, LOG_ORIGIN, INCEPTION_DATE: undefined };
  await expect(beginServe(late)).rejects.toThrow("today is not its inception");
});

test("is not ready before the port of callers is open, and says why", async () => {
  const folder = await temporaryFolder();
  const TLS_CERTIFICATE_FILE = join(folder, "tls.crt");
  const TLS_KEY_FILE = join(folder, "tls.key");
  const { server, monitored } = await beginServe({ ISSUERS, TLS_CERTIFICATE_FILE, TLS_KEY_FILE });
  onTestFinished(() => server.close(1000));
  const readiness = async (): Promise<readonly unknown[]> => {
    const response = await monitored("/readyz");
    return [response.status, (await response.json()).reasons];
  };
  const reason = expect.stringMatching(/^the serving certificate: .*tls\.crt/);
  await eventually(async () => expect(await readiness()).toEqual([503, [reason]]));
  const { key, ca } = await createTlsIdentity();
  await writeFile(TLS_KEY_FILE, key);
  await writeFile(TLS_CERTIFICATE_FILE, ca);
  await server.address;
  await eventually(async () => expect(await readiness()).toEqual([200, []]));
});
