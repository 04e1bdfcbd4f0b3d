import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ServedCa, serveCa } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import {
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../../testkit/kubernetes/watched-api.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { eventually } from "../../testkit/time/eventually.ts";

describe("rampart serve", () => {
  let api: WatchedApi;
  let served: ServedCa | undefined;

  beforeEach(async () => {
    api = await startWatchedApi();
  });

  afterEach(async () => {
    await served?.end();
    served = undefined;
    await api.close();
  });

  const credential = "CLUSTER_CREDENTIAL_A";

  const proxies = { trusted_node_accounts: ["istio-system/ztunnel"] };

  async function start(
    changes: Record<string, unknown>,
    values: Record<string, unknown> = {},
    { origin: server } = api,
  ): Promise<void> {
    const kubernetes = { server, credential };
    const jwks = jwksOf(await createTokenKey("ES256", "k1"));
    const table = { issuer: "https://a.test", jwks, kubernetes };
    const ISSUERS = [{ ...table, ...changes }];
    served = await serveCa({ ISSUERS, [credential]: watchedToken, ...values });
  }

  test("watches the pods of a cluster with node proxies until it ends", async () => {
    await start(proxies);
    await eventually(() => expect(api.watching()).toBe(1));
    await served?.end();
    served = undefined;
    await eventually(() => expect(api.watching()).toBe(0));
  });

  test("watches nothing if it cannot start", async () => {
    const other = await startWatchedApi();
    const address = new URL(other.origin).host;
    api.endNoWatch();
    await expect(start(proxies, { MONITORING_LISTEN: address })).rejects.toThrow(/EADDRINUSE/);
    // A watch that was left running has begun by then.
    await start(proxies, {}, other);
    await eventually(() => expect(other.watching()).toBe(1));
    await eventually(() => expect(api.watching()).toBe(0));
    await other.close();
  });

  test("leaves no port open if it cannot start", async () => {
    const [port] = await freePorts(1);
    const listens = {
      MONITORING_LISTEN: `127.0.0.1:${port}`,
      PLAINTEXT_LISTEN: new URL(api.origin).host,
    };
    await expect(start({}, listens)).rejects.toThrow(/EADDRINUSE/);
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow();
  });

  test.each<[string, Record<string, unknown>]>([
    ["without node proxies", {}],
    [
      "whose node proxies are checked by claims",
      {
        trusted_node_accounts: ["istio-system/ztunnel"],
        node_checks: "claims",
        node_reach: "anywhere",
      },
    ],
  ])("sends no request to a cluster %s", async (_, changes) => {
    await start(changes);
    expect(api.asked).toEqual([]);
  });
});
