import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { serveCa } from "../../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../../testkit/callers/tokens.ts";
import { startProgram } from "../../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";
import { eventually } from "../../../testkit/time/eventually.ts";

const issuer = "https://a.test";

test("a program follows its file, keeps a wrong one out of force, and reads at once for SIGHUP", async () => {
  const key = await createTokenKey("ES256", "k1");
  const gateways = [{ account: "istio-system/rampart-gateway", dns_names: ["gateway.test"] }];
  const ca = await serveCa({
    SERVING_NAMES: ["localhost"],
    ISSUERS: [{ issuer, jwks: jwksOf(key), gateways }],
  });
  onTestFinished(ca.end);
  const folder = await temporaryFolder();
  const [roots, token] = [join(folder, "roots.pem"), join(folder, "token")];
  await writeFile(roots, await ca.bundle());
  await writeFile(
    token,
    await mintAccountToken(key, issuer, "istio-system:rampart-gateway", new Date()),
  );
  const values = {
    UPSTREAM: `https://localhost:${ca.port}`,
    UPSTREAM_CA_FILE: roots,
    TOKEN_FILE: token,
    LISTEN: "127.0.0.1:0",
  };
  const gateway = await startProgram("gateway", values);
  await gateway.portOf("gRPC");
  const generation = () => gateway.metric("rampart_configuration_generation");
  const success = () => gateway.metric("rampart_configuration_reload_success");
  const current = { ...values, CLUSTER: "one" };
  await gateway.replace(current);
  await eventually(async () => expect(await generation()).toBe(2));
  await gateway.replace({ ...current, NOBODY_KNOWS: 1 });
  gateway.send("SIGHUP");
  await eventually(async () => expect(await success()).toBe(0));
  expect((await gateway.readiness()).reasons).toContainEqual(
    expect.stringMatching(/^the configuration file is not in force: .*NOBODY_KNOWS/),
  );
  expect(await generation()).toBe(2);
  await gateway.replace({ ...current, MONITORING_LISTEN: "127.0.0.1:1" });
  gateway.send("SIGHUP");
  await eventually(async () =>
    expect((await gateway.readiness()).reasons).toContain(
      "keys of the configuration have changed that need a restart: MONITORING_LISTEN",
    ),
  );
  expect(await success()).toBe(1);
  expect(await gateway.end()).toBe(0);
});
