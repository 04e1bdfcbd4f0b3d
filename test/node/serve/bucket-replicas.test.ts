import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { type S3Api, s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { mintedTogether, startingReplicas } from "./starting-replicas.ts";

async function startBucket() {
  const api = await startS3Api();
  onTestFinished(api.close);
  const credentials = join(await temporaryFolder(), "credentials");
  const rotate = (id: string) =>
    writeFile(
      credentials,
      `[default]\naws_access_key_id=${id}\naws_secret_access_key=${s3Credential.secretAccessKey}\n`,
    );
  await rotate(s3Credential.accessKeyId);
  const start = startingReplicas({
    STORE: "s3",
    STORE_BUCKET: "rampart-store",
    STORE_PREFIX: "mesh-1/",
    S3_ENDPOINT: api.origin,
    S3_REGION: "eu-test-1",
    S3_CREDENTIALS_FILE: credentials,
  });
  return { api, rotate, start };
}

const authoritiesIn = ({ objects }: S3Api): readonly string[] =>
  [...objects.keys()].filter((name) => name.startsWith("mesh-1/authorities/"));

describe("replicas of one bucket", () => {
  test("found one CA together, and publish the same bundle", async () => {
    const { api, start } = await startBucket();
    expect(await mintedTogether(await Promise.all([start(), start()]))).toBe(1);
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
    expect(JSON.parse(await text("/readyz")).reasons).toContain(
      "the store of authorities cannot be read: it refuses the credential for GET (status 403, InvalidAccessKeyId)",
    );
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
