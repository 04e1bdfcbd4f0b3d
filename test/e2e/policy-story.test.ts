import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { servedName } from "../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../testkit/callers/tokens.ts";
import { createWorkload } from "../testkit/callers/workload.ts";
import { randomKek } from "../testkit/configuration.ts";
import { nativeClient } from "../testkit/network/native-grpc.ts";
import { serveToml, startServe } from "../testkit/programs/rampart-process.ts";
import { endIn } from "../testkit/refusal.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";
import { eventually } from "../testkit/time/eventually.ts";

const issuer = "https://a.test";

test("a rule goes from shadow to live and back, while calls go on and none fails", async () => {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  const key = await createTokenKey("ES256", "k1");
  const configure = async (...rules: readonly object[]): Promise<void> => {
    const toml = serveToml(join(folder, "store"), {
      PROPAGATION_INTERVAL: "0s",
      CALLER_QUOTA: 1_000_000,
      ISSUERS: [{ issuer, jwks: jwksOf(key) }],
      POLICY: { rules },
    });
    await writeFile(`${config}.new`, toml);
    await rename(`${config}.new`, config);
  };
  const rule = { name: "closed", when: { namespace: "pay" }, then: { deny: "closed" } };
  await configure({ ...rule, shadow: true });
  const server = await startServe(config, randomKek());
  const monitoring = `http://127.0.0.1:${server.monitoringPort}`;
  const roots = await (await fetch(`${monitoring}/bundle.pem`)).text();
  const client = nativeClient(server.port, servedName, { roots });
  const { csrPem: csr } = await createWorkload();
  const endFor = async (account: string): Promise<string> => {
    const token = await mintAccountToken(key, issuer, account, new Date());
    const authorization = `Bearer ${token}`;
    return endIn(server, (id) => client.createCertificate({ csr }, { ...id, authorization }));
  };
  let isOver = false;
  const codes = new Set<string>();
  const calls = (async () => {
    while (!isOver) codes.add(await endFor("shop:cart"));
  })();
  expect(await endFor("pay:till")).toBe("issued");
  const metrics = await (await fetch(`${monitoring}/metrics`)).text();
  expect(metrics).toContain('rampart_policy_shadow_total{rule="closed",effect="denied"} 1');

  await configure(rule);
  await eventually(async () =>
    expect(await endFor("pay:till")).toBe("PermissionDenied policy-denied closed"),
  );
  // A file with a contradiction changes nothing.
  await configure({ ...rule, then: { deny: "closed", maximum_life: "1h" } });
  await eventually(async () => {
    const { reasons } = await (await fetch(`${monitoring}/readyz`)).json();
    expect(reasons.join()).toContain("POLICY.rules[0].then.deny: must stand alone");
  });
  expect(await endFor("pay:till")).toBe("PermissionDenied policy-denied closed");
  await configure({ ...rule, shadow: true });
  await eventually(async () => expect(await endFor("pay:till")).toBe("issued"));
  isOver = true;
  await calls;
  expect([...codes]).toEqual(["issued"]);
  client.close();
  expect(await server.end()).toBe(0);
});
