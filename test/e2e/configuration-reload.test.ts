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

const [a, b] = ["https://a.test", "https://b.test"];

test("clusters join and leave a running CA, while calls go on and none fails", async () => {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  const key = await createTokenKey("ES256", "k1");
  const tableOf = (issuer: string) => ({ issuer, jwks: jwksOf(key), namespaces: ["foo"] });
  const tomlOf = (issuers: readonly string[], more: object = {}): string =>
    serveToml(join(folder, "store"), {
      PROPAGATION_INTERVAL: "0s",
      CALLER_QUOTA: 1_000_000,
      ISSUERS: issuers.map(tableOf),
      ...more,
    });
  /** Replaces the file as an editor does. */
  const replace = async (text: string): Promise<void> => {
    await writeFile(`${config}.new`, text);
    await rename(`${config}.new`, config);
  };
  await replace(tomlOf([a]));
  const server = await startServe(config, randomKek());
  const monitoring = `http://127.0.0.1:${server.monitoringPort}`;
  const roots = await (await fetch(`${monitoring}/bundle.pem`)).text();
  const client = nativeClient(server.port, servedName, { roots });
  const { csrPem: csr } = await createWorkload();
  const unknownIssuer = "Unauthenticated credential-rejected issuer";
  const endFor = async (issuer: string): Promise<string> => {
    const token = await mintAccountToken(key, issuer, "foo:bar", new Date());
    const authorization = `Bearer ${token}`;
    return endIn(server, (id) => client.createCertificate({ csr }, { ...id, authorization }));
  };
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`${monitoring}/metrics`)).text();
    return Number(new RegExp(`^${name} (.+)$`, "m").exec(text)?.[1]);
  };
  const generation = () => metric("rampart_configuration_generation");
  const readiness = async () => {
    const response = await fetch(`${monitoring}/readyz`);
    return { status: response.status, reasons: (await response.json()).reasons };
  };

  let isOver = false;
  const codes = new Map<string, number>();
  const calls = (async () => {
    while (!isOver) {
      const code = await endFor(a);
      codes.set(code, (codes.get(code) ?? 0) + 1);
    }
  })();

  expect([await endFor(a), await endFor(b)]).toEqual(["issued", unknownIssuer]);
  await replace(tomlOf([a, b]));
  await eventually(async () => expect(await endFor(b)).toBe("issued"));
  expect(await generation()).toBe(2);

  await replace("[[ISSUERS]\nissuer = ");
  await eventually(async () =>
    expect(await metric("rampart_configuration_reload_success")).toBe(0),
  );
  expect(await readiness()).toEqual({
    status: 200,
    reasons: [
      expect.stringMatching(/^the configuration file is not in force: .*:1:.*is not TOML$/),
    ],
  });
  expect([await endFor(b), await generation()]).toEqual(["issued", 2]);

  await replace(tomlOf([a], { LISTEN: "127.0.0.1:1" }));
  server.send("SIGHUP");
  await eventually(async () => expect(await endFor(b)).toBe(unknownIssuer));
  expect(await readiness()).toEqual({
    status: 200,
    reasons: ["keys of the configuration have changed that need a restart: LISTEN"],
  });
  expect(await metric("rampart_configuration_reload_success")).toBe(1);
  expect(await metric("rampart_configuration_keys_awaiting_restart")).toBe(1);
  expect(await generation()).toBe(3);

  isOver = true;
  await calls;
  expect([...codes.keys()]).toEqual(["issued"]);
  client.close();
  expect(await server.end()).toBe(0);
});
