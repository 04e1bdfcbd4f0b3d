import { expect, test } from "vitest";
import { PublishedLog } from "../../../src/transport/http/log-routes.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";

const readers = [1, 2].map((number) => `the-token-of-a-reader-of-the-log-000${number}`);
const token = `Bearer ${readers[1]}`;

const published = {
  shards: async () => [{ shard: "0", origin: "log.test/0", verifierKey: "log.test/0+1+A" }],
  read: async () => Uint8Array.of(1),
  readers,
  hasPublicTiles: true,
};

const start = (hasPublicTiles: boolean) =>
  startCa({}, { publishedLog: { ...published, hasPublicTiles } });

const forAll = "public, max-age=31536000, immutable";
const forOne = "private, max-age=31536000, immutable";

test.each([
  ["tile/entries/000", true, 401, 200, forOne],
  ["tile/entries/000", false, 401, 200, forOne],
  ["tile/0/000", true, 200, 200, forAll],
  ["tile/0/000", false, 401, 200, forOne],
  ["checkpoint", true, 200, 200, "no-cache"],
  ["checkpoint", false, 401, 200, "no-cache"],
])(
  "/log/0/%s of a log whose tiles are public: %s",
  async (path, isPublic, without, withToken, keeps) => {
    const { app } = await start(isPublic);
    expect((await app.request(`/log/0/${path}`)).status).toBe(without);
    const read = await app.request(`/log/0/${path}`, { headers: { authorization: token } });
    expect([read.status, read.headers.get("cache-control")]).toEqual([withToken, keeps]);
  },
);

test("nobody keeps the answer that a tile is not there yet", async () => {
  const { app } = await startCa(
    {},
    { publishedLog: { ...published, read: async () => undefined } },
  );
  const read = await app.request("/log/0/tile/0/000");
  expect([read.status, read.headers.get("cache-control")]).toEqual([404, "no-store"]);
});

test.each([
  "",
  "Bearer",
  "Bearer ",
  `Bearer ${readers[0]}x`,
  `Bearer ${readers[0]?.slice(0, -1)}`,
  `bearer ${readers[0]}`,
  `Bearer ${readers[0]} more`,
])("refuses the credential %j of a reader", async (authorization) => {
  const { app } = await start(false);
  const read = await app.request("/log/0/checkpoint", { headers: { authorization } });
  expect([read.status, read.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
  expect((await app.request("/log/logs.json", { headers: { authorization } })).status).toBe(401);
});

test("of a stored log those shards are listed that have begun, each with its own origin", async () => {
  const read = async (shard: string, path: string) =>
    shard === "2" ? undefined : new TextEncoder().encode(`${path} of ${shard}\n`);
  const stored = { ...published, origin: "log.test", names: () => ["0", "1", "2"], read };
  const { app } = await startCa({}, { publishedLog: PublishedLog.publishStored(stored) });
  expect(await (await app.request("/log/logs.json")).json()).toEqual([
    { shard: "0", origin: "log.test/0", verifierKey: "vkey of 0" },
    { shard: "1", origin: "log.test/1", verifierKey: "vkey of 1" },
  ]);
});

test("has one spelling of each path, which rules of an edge see", async () => {
  const { app } = await start(true);
  for (const path of [
    "/log/0/tile%2F0/000",
    "/%6Cog/0/checkpoint",
    "/%62undle.pem",
    "/healthz%20",
  ]) {
    expect((await app.request(path)).status, path).toBe(404);
  }
});

test("answers only paths of a log, whatever the storage holds", async () => {
  const { app } = await start(true);
  const headers = { authorization: token };
  for (const path of [
    "0/vkey",
    "0/key",
    "x/checkpoint",
    "0000/checkpoint",
    "0/tile/0/../checkpoint",
  ]) {
    expect((await app.request(`/log/${path}`, { headers })).status, path).toBe(404);
  }
});
