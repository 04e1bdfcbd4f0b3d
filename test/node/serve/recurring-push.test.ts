import { afterEach, beforeEach, expect, test } from "vitest";
import { type ServedCa, serveCa } from "../../testkit/ca/served-ca.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../../testkit/kubernetes/watched-api.ts";
import { createVirtualTime, type VirtualTime } from "../../testkit/time/virtual-time.ts";

const credential = "CLUSTER_CREDENTIAL_A";
let apis: [WatchedApi, WatchedApi];
let served: ServedCa | undefined;
let time: VirtualTime;

beforeEach(async () => {
  time = createVirtualTime(new Date());
  apis = [await startWatchedApi(), await startWatchedApi()];
  for (const api of apis) for (const name of ["default", "shop"]) api.put(namespaceOf(name));
});

afterEach(async () => {
  await served?.end();
  served = undefined;
  await Promise.all(apis.map((api) => api.close()));
});

/** Issuers `a` and `b`, whose clusters have these API servers. */
const issuersAt = (servers: readonly WatchedApi[], deliver_roots = true) =>
  servers.map(({ origin }, i) => ({
    issuer: `https://${"ab"[i]}.test`,
    cluster: "ab"[i],
    kubernetes: { server: origin, credential, deliver_roots },
  }));

async function start(deliver_roots: boolean): Promise<ServedCa> {
  const ISSUERS = issuersAt(apis, deliver_roots);
  served = await serveCa({ ISSUERS, [credential]: watchedToken }, time);
  return served;
}

const metrics = async ({ monitoringPort }: ServedCa): Promise<string> =>
  (await fetch(`http://127.0.0.1:${monitoringPort}/metrics`)).text();

test("serve brings its roots to the clusters that want them, and shows it", async () => {
  const [api, broken] = apis;
  broken.instead = (_, response) => Boolean(response.writeHead(500).end());
  const ca = await start(true);
  const pem = await ca.bundle();
  for (const name of ["default", "shop"]) {
    await time.passUntil(() =>
      expect(api.configMapIn(name)).toMatchObject({ data: { "root-cert.pem": pem } }),
    );
  }
  await time.passUntil(async () => {
    const text = await metrics(ca);
    expect(text).toContain('rampart_push_namespaces{cluster="a"} 2');
    expect(text).toContain('rampart_push_namespaces_delivered{cluster="a"} 2');
    expect(text).toMatch(/rampart_push_delivered_since_timestamp\{cluster="a"\} \d{9}/);
    expect(text).toContain('rampart_push_delivered{cluster="a"} 1');
    expect(text).toContain('rampart_push_delivered{cluster="b"} 0');
    expect(text).toMatch(/rampart_operations_total\{event="roots-not-delivered",level="warning"\}/);
  });
  broken.instead = undefined;
  await time.passUntil(() =>
    expect(broken.configMapIn("shop")).toMatchObject({ data: { "root-cert.pem": pem } }),
  );
});

test("serve keeps the credentials of its clusters when it refuses another configuration", async () => {
  const ca = await start(true);
  const [api] = apis;
  await time.passUntil(() => expect(api.configMapIn("shop")).toBeDefined());
  const kubernetes = {
    server: api.origin,
    credential: "CLUSTER_CREDENTIAL_B",
    deliver_roots: true,
  };
  const ISSUERS = [{ issuer: "https://c.test", kubernetes }];
  await expect(ca.reconfigure({ ISSUERS, [credential]: "of-no-cluster" })).rejects.toMatchObject({
    faults: ["CLUSTER_CREDENTIAL_B: is required"],
  });
  api.put(namespaceOf("late"));
  await time.passUntil(() => expect(api.configMapIn("late")).toBeDefined());
});

test("serve goes on with its delivery after a reload, and follows a cluster to another API server", async () => {
  const ca = await start(true);
  const [api, other] = apis;
  const reaches = async (each: WatchedApi, name: string): Promise<void> => {
    each.put(namespaceOf(name));
    await time.passUntil(() => expect(each.configMapIn(name)).toBeDefined());
  };
  const follow = (...servers: WatchedApi[]) =>
    ca.reconfigure({ ISSUERS: issuersAt(servers), [credential]: watchedToken, CALLER_QUOTA: 7 });
  await reaches(api, "first");
  await follow(api, other);
  await reaches(api, "second");
  await follow(api);
  await follow(other);
  await reaches(other, "third");
});

test("serve asks clusters that gave access for reviews for nothing else", async () => {
  const ca = await start(false);
  await time.passUntil(async () => expect(await ca.bundle()).toContain("BEGIN CERTIFICATE"));
  expect(await metrics(ca)).not.toMatch(/^rampart_push/m);
  const asked = apis.flatMap((api) => api.asked);
  expect(asked.filter((each) => !each.endsWith("/tokenreviews"))).toEqual([]);
});

test("serve ends though an API server holds it", async () => {
  const [api] = apis;
  const asked = new Promise<void>((resolve) => {
    api.instead = () => {
      resolve();
      return true;
    };
  });
  const { server } = await start(true);
  await asked;
  await server.close(100);
});
