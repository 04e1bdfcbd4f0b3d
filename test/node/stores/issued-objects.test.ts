import { readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { CaError } from "../../../src/foundation/errors.ts";
import { issuedCertificatesIn } from "../../../src/node/log/issued-certificates.ts";
import { issuedCertificatesAt } from "../../../src/node/stores/issued-objects.ts";
import { withRetries } from "../../../src/node/stores/retries.ts";
import { createSecretSpace, issuedSecrets } from "../../../src/node/stores/secret-space.ts";
import { describeIssued } from "../../contract/issued-certificates.ts";
import { refusalOf } from "../../testkit/refusal.ts";
import { startSecretsApi } from "../../testkit/stores/secrets-api.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { id, key, startBucket } from "./started-bucket.ts";

const noPause = async (): Promise<void> => {};

async function inBucket() {
  const { api, another, space } = await startBucket();
  return {
    api,
    space,
    spaceOf: () => another(15),
    open: (maximum?: number) => issuedCertificatesAt(another(), maximum),
    names: async () => [...api.objects.keys()].map((each) => each.slice("mesh-1/0issued/".length)),
    at: async (second: number) => {
      api.now = () => 1000 * second;
    },
  };
}

async function inSecrets() {
  const api = await startSecretsApi();
  onTestFinished(api.close);
  const { send } = api.client;
  const namespace = "rampart-store";
  const space = withRetries(createSecretSpace(send, namespace), "the API server", noPause);
  const written = (beginning: string) => issuedSecrets(send, namespace, beginning);
  return {
    api,
    space,
    spaceOf: () => space,
    open: (maximum?: number) => issuedCertificatesAt({ ...space, written }, maximum),
    names: async () =>
      [...api.secrets.keys()].map((each) =>
        each.slice("rampart.0issued.".length).replace(".", "/"),
      ),
    at: async (second: number) => {
      api.now = () => 1000 * second;
    },
  };
}

describe.each([
  ["a bucket", inBucket],
  ["Secrets", inSecrets],
])("in %s", (_, place) => {
  describeIssued(place);

  test("no list of records has a certificate, nor reads one", async () => {
    const { api, space, open } = await place();
    await space.write(key, "sealed");
    const issued = open();
    for (let i = 0; i < 20; i++) await issued.create(`${"ab".repeat(16)}/${i}`, new Uint8Array(9));
    const before = api.asked.length;
    expect([...(await space.list("now")).keys()]).toEqual([key]);
    expect(api.asked.slice(before).filter((each) => each.includes("0issued"))).toEqual([]);
    expect(api.asked.length - before).toBeLessThanOrEqual(2);
  });

  test("an outage refuses the request as one of the records does", async () => {
    const { api, open } = await place();
    const issued = open();
    await issued.create("a/1", new Uint8Array([1]));
    api.instead = (_request, response) => {
      response.writeHead(403).end();
      return true;
    };
    const refused = { reason: "store-unreachable" };
    expect(await refusalOf(() => issued.read("a/1"))).toMatchObject(refused);
    expect(await refusalOf(() => issued.create("a/2", new Uint8Array([2])))).toMatchObject(refused);
    expect(await issued.read("a/1").catch((error: unknown) => error)).toBeInstanceOf(CaError);
  });
});

describe("a bucket's list of records", () => {
  test("is as short from a service that lists from the beginning", async () => {
    const { api, space, open } = await inBucket();
    api.ignoresStart = true;
    await space.write(key, "sealed");
    await open().create("a/1", new Uint8Array([1]));
    const before = api.asked.length;
    expect([...(await space.list("now")).keys()]).toEqual([key]);
    expect(api.asked.slice(before)).toEqual([
      "GET /rampart-store",
      `GET /rampart-store/mesh-1/${key}`,
    ]);
  });

  test("is not asked for again because a certificate was issued", async () => {
    const { api, spaceOf } = await inBucket();
    const space = spaceOf();
    await space.write(key, "sealed");
    await space.list("recent");
    await issuedCertificatesAt(
      space as ReturnType<Awaited<ReturnType<typeof startBucket>>["another"]>,
    ).create("a/1", new Uint8Array([1]));
    const before = api.asked.length;
    expect((await space.list("recent")).size).toBe(1);
    expect(api.asked.slice(before)).toEqual([]);
  });
});

test("ages of Secrets are read without their contents, and of no record", async () => {
  const { api, space, open } = await inSecrets();
  await space.write(`taints/${id}`, "mac");
  await open().create("a/1", new Uint8Array([1]));
  const accepted: (string | undefined)[] = [];
  api.instead = ({ headers, method, url }) => {
    if (method === "GET" && url?.includes("limit=")) accepted.push(headers.accept);
    return false;
  };
  const { send } = api.client;
  expect([...(await issuedSecrets(send, "rampart-store", "0issued/")).keys()]).toEqual([
    "0issued/a/1",
  ]);
  expect(await issuedSecrets(send, "rampart-store", "0issued/b/")).toEqual(new Map());
  expect(accepted[0]).toMatch(/as=PartialObjectMetadataList/);
});

async function inFiles() {
  const folder = await temporaryFolder();
  const issued = join(folder, "issued");
  const writtenAt = new Map<string, number>();
  return {
    open: (maximum?: number) => issuedCertificatesIn(folder, maximum),
    names: async () => {
      const entries = await readdir(issued, { recursive: true, withFileTypes: true });
      const files = entries.filter((each) => each.isFile());
      return files.map(({ parentPath, name }) => join(parentPath, name).slice(issued.length + 1));
    },
    at: async (second: number, written?: string) => {
      if (written !== undefined) writtenAt.set(written, second);
      // The clock of files is that of the machine, so they grow older instead.
      for (const [name, at] of writtenAt) {
        const time = Date.now() / 1000 - (second - at);
        await utimes(join(issued, name), time, time).catch(() => writtenAt.delete(name));
      }
    },
  };
}

describeIssued(inFiles);

test("what a killed process left in the folder is removed with the certificates of its age", async () => {
  const folder = await temporaryFolder();
  await issuedCertificatesIn(folder).create("a/1", new Uint8Array(1));
  const left = join(folder, "issued/a/.5.left-by-a-killed-process");
  await writeFile(left, "");
  await utimes(left, 0, 0);
  await issuedCertificatesIn(folder).create("a/2", new Uint8Array(1));
  expect((await readdir(join(folder, "issued/a"))).toSorted()).toEqual(["1", "2"]);
});
