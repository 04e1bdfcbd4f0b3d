import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { createSharedStore } from "../../../src/custody/shared/shared-store.ts";
import { serve } from "../../../src/node/serve/serve.ts";
import { parseServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { createSecretSpace } from "../../../src/node/stores/secret-space.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import {
  type SecretsApi,
  secretsToken,
  startSecretsApi,
} from "../../testkit/stores/secrets-api.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/** Starts replicas that rotate every second, and waits for none to have a certificate of its own. */
async function startReplicas(count: number, api: SecretsApi) {
  const tokenFile = join(await temporaryFolder(), "token");
  await writeFile(tokenFile, secretsToken);
  const configuration = parseServeConfiguration({
    STORE: "kubernetes",
    STORE_NAMESPACE: "rampart-store",
    KUBERNETES_SERVER: api.origin,
    KUBERNETES_TOKEN_FILE: tokenFile,
    ISSUERS: [{ issuer: "https://a.test" }],
    KEK: randomKek("k1"),
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "1h",
    MAX_WORKLOAD_CERT_TTL: "8s",
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
  });
  const start = async () => {
    const log = createEventRecorder();
    const server = await serve(configuration, { log, clock: () => new Date() });
    server.address.catch(() => {});
    const end = () => server.close(0);
    ends.push(end);
    const { port } = server.monitoringAddress;
    const bundle = async () => (await fetch(`http://127.0.0.1:${port}/bundle.pem`)).text();
    return { log, bundle, end };
  };
  return Promise.all(Array.from({ length: count }, start));
}

async function startStore(): Promise<SecretsApi> {
  const api = await startSecretsApi();
  ends.push(api.close);
  return api;
}

const authoritiesIn = async ({ client }: SecretsApi): Promise<number> => {
  const store = createSharedStore(createSecretSpace(client.send, "rampart-store"));
  return (await store.load()).filter(({ kind }) => kind === "authority").length;
};

describe("replicas of one store", () => {
  test("found one CA together, and publish the same bundle", async () => {
    const api = await startStore();
    const replicas = await startReplicas(3, api);
    await eventually(async () => {
      const bundles = await Promise.all(replicas.map(({ bundle }) => bundle()));
      expect(bundles[0]).toContain("BEGIN CERTIFICATE");
      expect(new Set(bundles).size).toBe(1);
    });
    expect(await authoritiesIn(api)).toBe(1);
    const minted = replicas.flatMap(({ log }) =>
      log.operations.filter(({ event }) => event === "authority-minted"),
    );
    expect(minted).toHaveLength(1);
  });

  test("say that nobody rotates while the API server is away, and go on when it is back", async () => {
    const api = await startStore();
    api.instead = (_, response) => Boolean(response.destroy());
    const [replica] = await startReplicas(1, api);
    await eventually(() =>
      expect(replica?.log.operations).toContainEqual(
        expect.objectContaining({
          event: "rotation-fault",
          detail: expect.stringMatching(/nobody knows which replica rotates: the API server http/),
        }),
      ),
    );
    expect(await replica?.bundle()).not.toContain("BEGIN");
    api.instead = undefined;
    await eventually(async () => expect(await replica?.bundle()).toContain("BEGIN CERTIFICATE"));
  });
});
