import { describe, expect, onTestFinished, test } from "vitest";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { createSharedStore } from "../../../src/node/stores/object-space.ts";
import { createSecretSpace } from "../../../src/node/stores/secret-space.ts";
import { beginServe } from "../../testkit/ca/served-ca.ts";
import { randomKek } from "../../testkit/configuration.ts";
import {
  rotateS3Credential,
  s3Credential,
  s3CredentialsFile,
  startS3Api,
} from "../../testkit/stores/s3-api.ts";
import { startSecretsApi } from "../../testkit/stores/secrets-api.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

/** Starts a replica on the store of these keys with each call. It rotates every second, and has no certificate of its own yet. */
function startingReplicas(store: object) {
  const time = createVirtualTime(new Date());
  const values = {
    ...store,
    ISSUERS: [{ issuer: "https://a.test" }],
    KEK: randomKek(),
    PROPAGATION_INTERVAL: "1h",
    MAX_WORKLOAD_CERT_TTL: "8s",
  };
  const start = async () => {
    const { log, server, monitored } = await beginServe(values, time);
    onTestFinished(() => server.close(0));
    return { log, text: async (path: string) => (await monitored(path)).text() };
  };
  return { start, time };
}

async function onBucket() {
  const api = await startS3Api();
  onTestFinished(api.close);
  const S3_CREDENTIALS_FILE = await s3CredentialsFile();
  const replicas = startingReplicas({ ...api.storeKeys, S3_CREDENTIALS_FILE });
  const authorities = async () =>
    [...api.objects.keys()].filter((name) => name.startsWith("mesh-1/authorities/")).length;
  const rotate = (id: string) => rotateS3Credential(S3_CREDENTIALS_FILE, id);
  return { api, rotate, ...replicas, authorities };
}

async function onSecrets() {
  const api = await startSecretsApi();
  onTestFinished(api.close);
  const replicas = startingReplicas(await api.storeKeys());
  const authorities = async (): Promise<number> => {
    const store = createSharedStore(createSecretSpace(api.client.send, "rampart-store"));
    return (await store.load()).filter(({ kind }) => kind === "authority").length;
  };
  return { api, ...replicas, authorities };
}

describe("replicas of one store", () => {
  test.each([
    ["in a bucket", onBucket],
    ["in Secrets", onSecrets],
  ])("found one CA together, and publish the same bundle: %s", async (_, open) => {
    const { start, time, authorities } = await open();
    const replicas = await Promise.all([start(), start(), start()]);
    await time.passUntil(async () => {
      const bundles = await Promise.all(replicas.map(({ text }) => text("/bundle.pem")));
      expect(bundles[0]).toContain("BEGIN CERTIFICATE");
      expect(new Set(bundles).size).toBe(1);
    });
    const operations = replicas.flatMap(({ log }) => log.operations);
    expect(operations.filter(({ event }) => event === "authority-minted")).toHaveLength(1);
    expect(await authorities()).toBe(1);
  });

  test("say that nobody rotates while the API server is away, and go on when it is back", async () => {
    const { api, start, time } = await onSecrets();
    api.instead = (_, response) => Boolean(response.destroy());
    const { log, text } = await start();
    const detail = /nobody knows which replica rotates: the API server http/;
    expect(await time.passWhile(log.until("rotation-fault"))).toMatchObject({
      detail: expect.stringMatching(detail),
    });
    expect(await text("/bundle.pem")).not.toContain("BEGIN");
    api.instead = undefined;
    await time.passUntil(async () =>
      expect(await text("/bundle.pem")).toContain("BEGIN CERTIFICATE"),
    );
  });

  test("start while the bucket refuses them, say why, and go on with a new credential", async () => {
    const { api, rotate, start, time } = await onBucket();
    api.credential = { ...s3Credential, accessKeyId: "ROTATED" };
    const { log, text } = await start();
    const why = "refuses the credential for GET (status 403, InvalidAccessKeyId)";
    expect(await time.passWhile(log.until("rotation-fault"))).toMatchObject({
      detail: `nobody knows which replica rotates: the bucket ${api.place.url} ${why}`,
    });
    expect(JSON.parse(await text("/readyz")).reasons).toContain(
      `the store of authorities cannot be read: it ${why}`,
    );
    await rotate("ROTATED");
    await time.passUntil(async () =>
      expect(await text("/bundle.pem")).toContain("BEGIN CERTIFICATE"),
    );
    expect(JSON.stringify(log.operations)).not.toMatch(/AKID|secret/);
  });

  test("do not start where the service ignores the conditions of writes", async () => {
    const { api, start } = await onBucket();
    api.ignores = "if-none-match";
    const error = await start().catch((each: unknown) => each);
    expect(error).toBeInstanceOf(OperatorError);
    expect(String(error)).toMatch(/cannot hold the store: it ignores If-None-Match, so that/);
    expect(api.objects.size).toBe(0);
  });
});
