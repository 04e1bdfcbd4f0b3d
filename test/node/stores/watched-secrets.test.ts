import { afterEach, describe, expect, test } from "vitest";
import { createSharedStore, type ObjectSpace } from "../../../src/node/stores/object-space.ts";
import { createSecretSpace, WatchedSecrets } from "../../../src/node/stores/secret-space.ts";
import { describeAuthorityStore } from "../../contract/authority-store.ts";
import { spacePromises } from "../../contract/object-space.ts";
import { type SecretsApi, startSecretsApi } from "../../testkit/stores/secrets-api.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/**
 * @param changes Replaces methods of the space behind the watch.
 * @param prepare Changes the API server before the watch begins.
 */
async function start(
  changes: Partial<ObjectSpace> = {},
  prepare: (api: SecretsApi) => void = () => {},
) {
  const api = await startSecretsApi();
  prepare(api);
  ends.push(api.close);
  const ending = new AbortController();
  ends.push(() => ending.abort());
  const time = { now: Date.now() };
  const direct = createSecretSpace(api.client.send, "rampart-store");
  const faults: unknown[] = [];
  const space = new WatchedSecrets(
    { ...direct, ...changes },
    {
      client: api.client,
      namespace: "rampart-store",
      watchSeconds: 60,
      clock: () => new Date(time.now),
      signal: ending.signal,
      failed: (error) => void faults.push(error),
    },
  );
  const quiet = async (): Promise<void> => {
    await eventually(() => expect(api.watching()).toBe(1));
    await eventually(async () => {
      const before = api.asked.length;
      await space.list("recent");
      expect(api.asked).toHaveLength(before);
    });
  };
  return { api, direct, space, faults, quiet, time };
}

describeAuthorityStore(async () => createSharedStore((await start()).space));

describe("watched Secrets of a stand-in for an API server", () => {
  test.each(Object.entries(spacePromises))("%s", async (_, promise) =>
    promise((await start()).space),
  );
});

const key = "authorities/ab";

describe("watched Secrets", () => {
  test("show what another replica has written or removed, without a request", async () => {
    const { direct, space, quiet, api } = await start();
    await quiet();
    await direct.write(key, "of the other");
    const asked = api.asked.length;
    await eventually(async () =>
      expect((await space.list("recent")).get(key)?.value).toBe("of the other"),
    );
    expect(api.asked).toHaveLength(asked);
    await direct.remove(key);
    await eventually(async () => expect((await space.list("recent")).size).toBe(0));
  });

  test("show an own write at once, and what another replica makes of it", async () => {
    const { direct, space, quiet } = await start();
    await quiet();
    await space.write(key, "own");
    expect((await space.list("recent")).get(key)?.value).toBe("own");
    const version = (await direct.read(key))?.version;
    await direct.write(key, "of the other", version);
    await eventually(async () =>
      expect((await space.list("recent")).get(key)?.value).toBe("of the other"),
    );
    await space.remove(key);
    expect((await space.list("recent")).size).toBe(0);
  });

  test("show an own write and an own removal for some seconds, and then what the watch shows", async () => {
    // The API server confirms, and has lost it: its watch never shows it.
    const { direct, space, quiet, time } = await start({
      write: async () => true,
      remove: async () => {},
    });
    await direct.write("authorities/cd", "there");
    await quiet();
    const shown = async () => [...(await space.list("recent")).keys()].toSorted();
    await eventually(async () => expect(await shown()).toEqual(["authorities/cd"]));
    await space.write(key, "own");
    await space.remove("authorities/cd");
    expect(await shown()).toEqual([key]);
    time.now += 9_000;
    expect(await shown()).toEqual(["authorities/cd"]);
  });

  test("are asked for after the clock was set back, until the watch has said something since", async () => {
    const { api, space, quiet, time } = await start();
    await quiet();
    const asked = api.asked.length;
    time.now -= 3_600_000;
    await space.list("recent");
    expect(api.asked.length).toBeGreaterThan(asked);
  });

  test("are asked for after a silence, and whenever a list has to be fresh", async () => {
    const { api, direct, space, quiet, time } = await start();
    await quiet();
    api.isMute = true;
    await direct.write(key, "unseen");
    expect((await space.list("recent")).size).toBe(0);
    expect((await space.list("now")).size).toBe(1);
    time.now += 91_000;
    expect((await space.list("recent")).size).toBe(1);
  });

  test("cannot be listed where the API server is away, and no old list is taken for new", async () => {
    const { api, space, quiet, time } = await start();
    await quiet();
    api.instead = (_, response) => Boolean(response.destroy());
    time.now += 91_000;
    await expect(space.list("recent")).rejects.toThrow(/did not answer/);
  });

  test("report a watch that is refused, and are listed instead", async () => {
    const { direct, space, faults, time } = await start({}, (api) => {
      api.instead = (request, response) =>
        Boolean(request.url?.includes("watch=1") && response.writeHead(403).end());
    });
    await direct.write(key, "x");
    await eventually(() => expect(String(faults[0])).toMatch(/403/));
    time.now += 91_000;
    expect((await space.list("recent")).size).toBe(1);
  });
});
