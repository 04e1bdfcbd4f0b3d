import { afterEach, describe, expect, test } from "vitest";
import { AuthorityStore } from "../../../src/custody/authority-store.ts";
import { KubernetesClient } from "../../../src/kubernetes/client.ts";
import { createSharedStore } from "../../../src/node/stores/object-space.ts";
import { secretName } from "../../../src/node/stores/record-secret.ts";
import { withRetries } from "../../../src/node/stores/retries.ts";
import { createSecretSpace } from "../../../src/node/stores/secret-space.ts";
import { describeAuthorityStore } from "../../contract/authority-store.ts";
import { spacePromises } from "../../contract/object-space.ts";
import {
  type SecretsApi,
  secretsToken,
  startSecretsApi,
} from "../../testkit/stores/secrets-api.ts";

const servers: SecretsApi[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function start() {
  const api = await startSecretsApi();
  servers.push(api);
  return { api, space: createSecretSpace(api.client.send, "rampart-store") };
}

const noPause = async (): Promise<void> => {};
const id = "ab".repeat(20);
const key = `authorities/${id}`;
const base64 = (text: string): string => Buffer.from(text).toString("base64");
const secret = (name: string, data: object, type = "rampart.dev/record") => ({
  type,
  metadata: { name },
  data,
});

describeAuthorityStore(async () => createSharedStore((await start()).space));

describe("Secrets of a stand-in for an API server", () => {
  test.each(Object.entries(spacePromises))("%s", async (_, promise) =>
    promise((await start()).space),
  );
});

describe("the records in Secrets", () => {
  test("have names that an operator can read", async () => {
    const { api, space } = await start();
    await space.write(key, "sealed");
    await space.write(`signers/team-a/authorities/${id}`, "sealed");
    await space.write(`taints/${id}-1-2`, "mac");
    expect([...api.secrets.keys()]).toEqual([
      `rampart.authorities.${id}`,
      `rampart.signers.team-ma.authorities.${id}`,
      `rampart.taints.${id}-m1-m2`,
    ]);
    expect(api.secrets.get(`rampart.authorities.${id}`)).toMatchObject({
      type: "rampart.dev/record",
      data: { record: base64("sealed") },
    });
  });

  test.each(["", "authorities/", "Authorities/ab", "a b", "a/../b", `roots/${"a".repeat(250)}`])(
    "have no name for the key %j",
    (each) => {
      expect(() => secretName(each)).toThrow(/name/);
    },
  );

  test("are not mistaken for other Secrets", async () => {
    const { api, space } = await start();
    api.put(secret("rampart.authorities.ab", { record: base64("x") }, "Opaque"));
    api.put(secret("rampart-kek", { record: base64("x") }));
    api.put(secret("rampart.authorities.a-b", { record: base64("x") }));
    expect(await space.list("now")).toEqual(new Map());
    // A write to the name would conflict for ever.
    await expect(space.read("authorities/ab")).rejects.toThrow("which is no record");
  });

  test("are listed anew where the API server has forgotten its list, without those that are gone", async () => {
    const { api, space } = await start();
    api.put(secret(`rampart.taints.${id}`, { record: base64("new") }));
    const { metadata, ...gone } = secret("rampart.authorities.ab", { record: base64("gone") });
    const items = [{ ...gone, metadata: { ...metadata, resourceVersion: "1" } }];
    let asked = 0;
    api.instead = (_, response) => {
      if (++asked > 2) return false;
      if (asked === 2) response.writeHead(410);
      response.end(JSON.stringify({ kind: "SecretList", metadata: { continue: "more" }, items }));
      return true;
    };
    expect([...(await space.list("now")).keys()]).toEqual([`taints/${id}`]);
  });

  test.each([
    ["is missing", {}],
    ["is no base64", { record: "?" }],
    ["is under another name", { other: base64("x") }],
  ])("are empty where the value %s, and not overlooked", async (_, data) => {
    const { api, space } = await start();
    api.put(secret(`rampart.taints.${id}`, data));
    expect(await createSharedStore(space).load()).toEqual([{ kind: "taint", id, value: "" }]);
  });

  test("are cut where they are longer than any record", async () => {
    const { api, space } = await start();
    api.put(secret(`rampart.taints.${id}`, { record: base64("x".repeat(700_000)) }));
    const value = (await space.list("now")).get(`taints/${id}`)?.value ?? "";
    expect(value.length - AuthorityStore.maximumRecordOctets).toBeLessThan(3);
  });

  test("are listed without an end by a hostile server, which is refused", async () => {
    const { api, space } = await start();
    api.instead = (_, response) => {
      const items = [secret("rampart.authorities.ab", {})];
      response.end(JSON.stringify({ kind: "SecretList", metadata: { continue: "more" }, items }));
      return true;
    };
    await expect(space.list("now")).rejects.toThrow(/end of its list/);
  });

  test("need a namespace, and its lack is said with what to type", async () => {
    const { api } = await start();
    const elsewhere = createSecretSpace(api.client.send, "nowhere");
    await expect(elsewhere.write(key, "x")).rejects.toThrow(/kubectl create namespace nowhere/);
  });
});

describe("an API server that is busy", () => {
  test.each([429, 500, 503])("with status %i is asked again", async (status) => {
    const { api, space } = await start();
    let left = 3;
    api.instead = (_, response) => {
      if (left-- <= 0) return false;
      response.writeHead(status, { "retry-after": "0" }).end();
      return true;
    };
    const store = createSharedStore(withRetries(space, "the API server", noPause));
    await store.put({ kind: "authority", id, value: "x" });
    expect(await store.load()).toHaveLength(1);
  });

  test("for ever is refused after a bounded number of requests, by its name", async () => {
    const { api, space } = await start();
    api.instead = (_, response) => {
      response.writeHead(503).end();
      return true;
    };
    const repeating = withRetries(space, "the API server https://a", noPause);
    await expect(repeating.list("now")).rejects.toThrow(
      "the API server https://a answered GET /api/v1/namespaces/rampart-store/secrets with status 503",
    );
    expect(api.asked).toHaveLength(5);
  });

  test("gets no second request if it asks for a longer pause than a request has time", async () => {
    const { api, space } = await start();
    api.instead = (_, response) => {
      response.writeHead(429, { "retry-after": "60" }).end();
      return true;
    };
    await expect(withRetries(space, "it", noPause).list("now")).rejects.toThrow(/429/);
    expect(api.asked).toHaveLength(1);
  });

  test("after it has taken a write has that write counted as done", async () => {
    const { api, space } = await start();
    let isFirst = true;
    api.instead = (request, response) => {
      if (request.method !== "POST" || !isFirst) return false;
      isFirst = false;
      const name = `rampart.authorities.${id}`;
      api.put(secret(name, { record: base64("x") }));
      response.destroy();
      return true;
    };
    const store = createSharedStore(withRetries(space, "it", noPause));
    await store.put({ kind: "authority", id, value: "x" });
    expect(await store.load()).toEqual([{ kind: "authority", id, value: "x" }]);
  });

  test("is not asked again where it refuses the credential, which no sentence quotes", async () => {
    const { api } = await start();
    const access = { server: api.origin, credential: () => `${secretsToken}-of-another` };
    const { send } = KubernetesClient.create(access, fetch);
    const space = withRetries(createSecretSpace(send, "rampart-store"), "it", noPause);
    const error = await space.list("now").catch((each: unknown) => each);
    expect(String(error)).toMatch(/refuses the credential for GET \S+secrets \(status 401\)/);
    expect(String(error)).not.toContain(secretsToken);
    expect(api.asked).toHaveLength(1);
  });
});
