import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import { type S3Api, s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { authority, configure, movedAndBack, now } from "./store-moves.ts";

let folder: string;
let terminal: MemoryTerminal;
let api: S3Api;

beforeEach(async () => {
  folder = await temporaryFolder();
  api = await startS3Api();
  terminal = new MemoryTerminal({ clock: () => now });
  terminal.setVariable("KEK", randomKek());
  terminal.setVariable("AWS_ACCESS_KEY_ID", s3Credential.accessKeyId);
  terminal.setVariable("AWS_SECRET_ACCESS_KEY", s3Credential.secretAccessKey);
  return async () => {
    await api.close();
  };
});

const inBucket = () =>
  configure(join(folder, "rampart.toml"), {
    STORE: "s3",
    STORE_BUCKET: "rampart-store",
    STORE_PREFIX: "mesh-1/",
    S3_ENDPOINT: api.origin,
    S3_REGION: "eu-test-1",
  });

describe("a verb on a bucket", () => {
  test("founds a CA there, and moves it to a directory and back by a backup", async () => {
    const config = await inBucket();
    await authority(terminal, config, "init", "--yes");
    const [name = ""] = api.objects.keys();
    expect(name).toMatch(/^mesh-1\/authorities\/[0-9a-f]{40}$/);
    const listed = await movedAndBack(terminal, config, () => api.objects.clear());
    expect(listed).toContain(name.slice(-40));
    expect([...api.objects.keys()]).toContain(name);
  });

  test("writes nothing in a dry run", async () => {
    const config = await inBucket();
    await authority(terminal, config, "init", "--dry-run");
    expect(api.objects.size).toBe(0);
    expect(api.asked.every((request) => request.startsWith("GET "))).toBe(true);
  });

  test("names the store and what it refuses, without the credential", async () => {
    const config = await inBucket();
    api.credential = { ...s3Credential, accessKeyId: "ANOTHER" };
    const refused = authority(terminal, config, "list");
    await expect(refused).rejects.toThrow(OperatorError);
    await expect(refused).rejects.toThrow(
      /^the objects of http:\S+\/rampart-store\/mesh-1 cannot be read: the bucket http:\S+ refuses the credential for GET \(status 403, InvalidAccessKeyId\)$/,
    );
    await expect(refused).rejects.not.toThrow(/AKID|secret/);
  });

  test("founds nothing where the service would let two writers overwrite each other", async () => {
    const config = await inBucket();
    api.ignores = "if-none-match";
    await expect(authority(terminal, config, "init", "--yes")).rejects.toThrow(
      /ignores If-None-Match/,
    );
    expect(api.objects.size).toBe(0);
  });
});
