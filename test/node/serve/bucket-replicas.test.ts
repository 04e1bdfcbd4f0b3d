import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { OperatorError } from "../../../src/foundation/operator-error.ts";
import { serve } from "../../../src/node/serve/serve.ts";
import { parseServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { type S3Api, s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

async function startBucket() {
  const api = await startS3Api();
  ends.push(api.close);
  const credentials = join(await temporaryFolder(), "credentials");
  const rotate = (id: string) =>
    writeFile(
      credentials,
      `[default]\naws_access_key_id=${id}\naws_secret_access_key=${s3Credential.secretAccessKey}\n`,
    );
  await rotate(s3Credential.accessKeyId);
  return { api, rotate, start: starting(api, credentials) };
}

function starting(api: S3Api, credentials: string) {
  const configuration = parseServeConfiguration({
    STORE: "s3",
    STORE_BUCKET: "rampart-store",
    STORE_PREFIX: "mesh-1/",
    S3_ENDPOINT: api.origin,
    S3_REGION: "eu-test-1",
    S3_CREDENTIALS_FILE: credentials,
    ISSUERS: [{ issuer: "https://a.test" }],
    KEK: randomKek("k1"),
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "1h",
    MAX_WORKLOAD_CERT_TTL: "8s",
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
  });
  return async () => {
    const log = createEventRecorder();
    const server = await serve(configuration, { log, clock: () => new Date() });
    server.address.catch(() => {});
    ends.push(() => server.close(0));
    const { port } = server.monitoringAddress;
    const text = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).text();
    return { log, text };
  };
}

const authoritiesIn = ({ objects }: S3Api): readonly string[] =>
  [...objects.keys()].filter((name) => name.startsWith("mesh-1/authorities/"));

describe("replicas of one bucket", () => {
  test("found one CA together, and publish the same bundle", async () => {
    const { api, start } = await startBucket();
    const replicas = await Promise.all([start(), start()]);
    await eventually(async () => {
      const bundles = await Promise.all(replicas.map(({ text }) => text("/bundle.pem")));
      expect(bundles[0]).toContain("BEGIN CERTIFICATE");
      expect(new Set(bundles).size).toBe(1);
    });
    expect(authoritiesIn(api)).toHaveLength(1);
    expect([...api.objects.keys()].filter((name) => name.includes("probes"))).toEqual([]);
  });

  test("start while the service refuses them, say why, and go on with a new credential", async () => {
    const { api, rotate, start } = await startBucket();
    api.credential = { ...s3Credential, accessKeyId: "ROTATED" };
    const { log, text } = await start();
    await eventually(() =>
      expect(log.operations).toContainEqual(
        expect.objectContaining({
          event: "rotation-fault",
          detail: `nobody knows which replica rotates: the bucket ${api.place.url} refuses the credential for GET (status 403, InvalidAccessKeyId)`,
        }),
      ),
    );
    expect(await text("/readyz")).toContain("the store of authorities cannot be read");
    await rotate("ROTATED");
    await eventually(async () => expect(await text("/bundle.pem")).toContain("BEGIN CERTIFICATE"));
    expect(JSON.stringify(log.operations)).not.toMatch(/AKID|secret/);
  });

  test("do not start where the service ignores the conditions of writes", async () => {
    const { api, start } = await startBucket();
    api.ignores = "if-none-match";
    const error = await start().catch((each: unknown) => each);
    expect(error).toBeInstanceOf(OperatorError);
    expect(String(error)).toMatch(/cannot hold the store: it ignores If-None-Match, so that/);
    expect(api.objects.size).toBe(0);
  });
});
