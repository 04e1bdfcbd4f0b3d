import "reflect-metadata/lite";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as x509 from "@peculiar/x509";
import { describe, expect, onTestFinished, test } from "vitest";
import { pause } from "../../../src/foundation/pause.ts";
import type { RootsReport } from "../../../src/node/distribute/delivery-progress.ts";
import { DistributeConfiguration, distribute } from "../../../src/node/distribute/distribute.ts";
import { refreshRoots } from "../../../src/node/distribute/roots-delivery.ts";
import {
  followUpstreamTrust,
  type UpstreamTrust,
} from "../../../src/node/distribute/upstream-trust.ts";
import { runGateway } from "../../../src/node/gateway/gateway.ts";
import { GatewayConfiguration } from "../../../src/node/gateway/gateway-configuration.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { patientLimits } from "../../testkit/ca/patient-limits.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../../testkit/kubernetes/watched-api.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { type CrlAuthority, createCrlAuthority, crlTime } from "../../testkit/pki/crl-authority.ts";
import { readCrl } from "../../testkit/pki/crls.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const [a, b] = await Promise.all([createCrlAuthority(), createCrlAuthority()]);
const [listOfA, listOfB] = await Promise.all([a.crl(), b.crl()]);
const pemOf = (...authorities: readonly CrlAuthority[]): string =>
  authorities.map(({ certificate }) => String(certificate)).join("");

/** A CA that holds no answer, and publishes what the test says. */
async function startPublisher() {
  type Said = string | number;
  const state: { bundle: Said; lists: Said | Promise<Said> } = { bundle: 503, lists: 503 };
  const { origin, requests } = await startLoopbackServer(async ({ url }, response) => {
    const said = url === "/crl.pem" ? await state.lists : state.bundle;
    response.writeHead(typeof said === "number" ? said : 200).end(String(said));
  });
  let sequence = 0;
  const publish = (
    roots: readonly CrlAuthority[],
    lists: string | number,
    number = ++sequence,
  ): void => {
    const keys = roots.map(({ certificate }) => ({
      use: "x509-svid",
      x5c: [certificate.raw.toString("base64")],
    }));
    state.bundle = JSON.stringify({ spiffe_sequence: number, spiffe_refresh_hint: 77, keys });
    state.lists = lists;
  };
  /** Waits until it has been asked for both some more times. */
  const asked = async (): Promise<void> => {
    const times = (path: string) => requests.filter((url) => url === path).length;
    const [bundles, lists] = [times("/bundle.json"), times("/crl.pem")];
    await eventually(() => {
      expect(times("/bundle.json")).toBeGreaterThan(bundles + 2);
      expect(times("/crl.pem")).toBeGreaterThan(lists + 2);
    });
  };
  return { origin, publish, asked, state, requests };
}

const context = (log = createEventRecorder(), clock = () => crlTime) => ({
  log,
  clock,
  pause: (milliseconds: number, signal?: AbortSignal) => pause(Math.min(milliseconds, 20), signal),
});

const both = `${listOfA}${listOfB}`;

/** @param prepare Changes the cluster before the start. */
async function startDistribute(
  upstream: string,
  clock = () => crlTime,
  prepare: (api: WatchedApi) => void = () => {},
  CRL_CONFIG_MAPS = true,
) {
  const log = createEventRecorder();
  const api = await startWatchedApi();
  onTestFinished(() => api.close());
  api.put(namespaceOf("shop"));
  prepare(api);
  const folder = await temporaryFolder();
  await writeFile(join(folder, "token"), watchedToken);
  const values = {
    UPSTREAM: upstream,
    KUBERNETES_SERVER: api.origin,
    KUBERNETES_TOKEN_FILE: join(folder, "token"),
    MONITORING_LISTEN: "127.0.0.1:0",
    CRL_CONFIG_MAPS,
  };
  const running = await distribute(DistributeConfiguration.parse(values, {}), context(log, clock));
  onTestFinished(() => running.close(100));
  const held = () => ({
    roots: Object(api.configMapIn("shop")?.data)["root-cert.pem"],
    lists: Object(api.configMapIn("shop", "istio-ca-crl")?.data)["ca-crl.pem"],
  });
  const written = () =>
    api.asked.filter((each) => each.startsWith("PATCH")).map((each) => each.split("/").at(-1));
  const readiness = async () =>
    (await fetch(`http://127.0.0.1:${running.monitoringAddress.port}/readyz`)).json();
  return { api, log, held, written, readiness };
}

test("distribute delivers a new root with its CRL, the CRL first, empties nothing, and keeps the CRL of one that leaves", async () => {
  const ca = await startPublisher();
  ca.publish([a], listOfA);
  let now = crlTime;
  const { api, held, written, readiness } = await startDistribute(ca.origin, () => now);
  await eventually(() => expect(held()).toEqual({ roots: pemOf(a), lists: listOfA }));
  await eventually(async () => expect(await readiness()).toMatchObject({ ready: true }));
  const labels = { "istio.io/config": "true" };
  expect(api.configMapIn("shop", "istio-ca-crl")).toMatchObject({ metadata: { labels } });
  ca.publish([a, b], listOfA);
  await ca.asked();
  expect(held()).toEqual({ roots: pemOf(a), lists: listOfA });
  ca.publish([a, b], both);
  await eventually(() => expect(held()).toEqual({ roots: pemOf(a, b), lists: both }));
  // The clock stands still, so no write waits for a pause after the one before.
  ca.publish([b], listOfB);
  await eventually(() => expect(held().roots).toBe(pemOf(b)));
  expect(held().lists).toBe(both);
  now = addSeconds(crlTime, 600);
  await eventually(() => expect(held().lists).toBe(listOfB));
  const pair = ["istio-ca-crl", "istio-ca-root-cert"];
  expect(written()).toEqual([...pair, ...pair, ...pair.toReversed()]);
});

test("distribute gives a new root to no namespace that refuses its CRL, for a minute", async () => {
  const ca = await startPublisher();
  ca.publish([a], listOfA);
  let now = crlTime;
  const { api, held } = await startDistribute(ca.origin, () => now);
  await eventually(() => expect(held()).toEqual({ roots: pemOf(a), lists: listOfA }));
  api.instead = ({ method, url = "" }, response) => {
    const isRefused = method === "PATCH" && url.includes("/istio-ca-crl");
    if (isRefused) response.writeHead(500).end();
    return isRefused;
  };
  ca.publish([a, b], both);
  await ca.asked();
  api.put(namespaceOf("empty"));
  const rootsIn = (namespace: string) => Object(api.configMapIn(namespace)?.data)["root-cert.pem"];
  await eventually(() => expect(rootsIn("empty")).toBe(pemOf(a, b)));
  expect(held()).toEqual({ roots: pemOf(a), lists: listOfA });
  now = addSeconds(crlTime, 60);
  await eventually(() => expect(held()).toEqual({ roots: pemOf(a, b), lists: listOfA }));
  // The next root waits as long, although the time of the former is over.
  const third = await createCrlAuthority();
  ca.publish([a, b, third], `${both}${await third.crl()}`);
  await eventually(() => expect(rootsIn("empty")).toBe(pemOf(a, b, third)));
  expect(held().roots).toBe(pemOf(a, b));
  now = addSeconds(crlTime, -60);
  api.put(namespaceOf("later"));
  await eventually(() => expect(rootsIn("later")).toBe(pemOf(a, b, third)));
  expect(held().roots).toBe(pemOf(a, b));
  // The clock was set back, and a minute passes by it.
  now = crlTime;
  await eventually(() => expect(held().roots).toBe(pemOf(a, b, third)));
});

test("distribute delivers a CRL before its root after an outage, whatever the pauses between its tries", async () => {
  const ca = await startPublisher();
  ca.publish([a], listOfA);
  let now = crlTime;
  const { api, held, written } = await startDistribute(ca.origin, () => now);
  await eventually(() => expect(held()).toEqual({ roots: pemOf(a), lists: listOfA }));
  let refused = 0;
  api.asked.length = 0;
  api.instead = ({ method }, response) => {
    const isWrite = method === "PATCH";
    if (isWrite) refused++;
    return isWrite && Boolean(response.writeHead(503).end());
  };
  ca.publish([a, b], both);
  // The first write of the root comes after a minute, when the CRL pauses for as long.
  for (const [tries, seconds] of [0, 1, 3, 7, 15, 31, 63, 75].entries()) {
    now = addSeconds(crlTime, seconds);
    await eventually(() => expect(refused).toBeGreaterThan(tries));
  }
  await eventually(() => expect(written()).toContain("istio-ca-root-cert"));
  // It comes back between the write of the CRL and that of the root.
  api.instead = ({ method }, response) => {
    if (method !== "PATCH") return false;
    api.instead = undefined;
    return Boolean(response.writeHead(503).end());
  };
  api.asked.length = 0;
  now = addSeconds(crlTime, 80);
  await eventually(() => expect(held()).toEqual({ roots: pemOf(a, b), lists: both }));
  expect(written()).toEqual(["istio-ca-crl", "istio-ca-root-cert", "istio-ca-crl"]);
});

test("distribute takes a CRL that comes before its root for no fault", async () => {
  const ca = await startPublisher();
  ca.publish([a], both);
  const { held, log } = await startDistribute(ca.origin);
  await eventually(() => expect(held()).toEqual({ roots: pemOf(a), lists: listOfA }));
  expect(await log.until("crl-refused")).toMatchObject({ level: "info" });
  ca.publish([a, b], both);
  await eventually(() => expect(held().roots).toBe(pemOf(a, b)));
  expect(log.operations.map(({ level }) => level)).not.toContain("warning");
});

describe("distribute and the CRLs", () => {
  const delivered = { roots: pemOf(a), lists: listOfA };

  test("that cannot be listed: roots wait for ten seconds, and the program is not ready", async () => {
    const ca = await startPublisher();
    ca.publish([a], listOfA);
    let [now, isRefused] = [crlTime, false];
    const refuse = (api: WatchedApi): void => {
      api.instead = ({ url = "" }, response) => {
        if (!url.includes("istio-ca-crl")) return false;
        isRefused = true;
        return Boolean(response.writeHead(403).end("{}"));
      };
    };
    const { held, readiness } = await startDistribute(ca.origin, () => now, refuse);
    await eventually(() => expect(isRefused).toBe(true));
    await ca.asked();
    expect(held().roots).toBeUndefined();
    now = addSeconds(crlTime, 10);
    await eventually(() => expect(held().roots).toBe(pemOf(a)));
    await eventually(async () => {
      const { ready, reasons } = await readiness();
      const areOfCrls = reasons.map((each: string) => each.startsWith("CRLs: "));
      expect([ready, new Set(areOfCrls)]).toEqual([false, new Set([true])]);
    });
  });

  test("that no operator wants are not delivered", async () => {
    const ca = await startPublisher();
    ca.publish([a], listOfA);
    const { held } = await startDistribute(ca.origin, undefined, undefined, false);
    await eventually(() => expect(held()).toEqual({ roots: pemOf(a), lists: undefined }));
  });

  test("that a CA without any has left behind are cleared", async () => {
    const ca = await startPublisher();
    ca.publish([a], 404);
    const labels = { "istio.io/config": "true" };
    const metadata = { name: "istio-ca-crl", namespace: "shop", labels };
    const leave = (api: WatchedApi) =>
      api.put({ kind: "ConfigMap", metadata, data: { "ca-crl.pem": "an old list" } });
    const { held } = await startDistribute(ca.origin, undefined, leave);
    await eventually(() => expect(held().lists).toBe(""));
  });

  test.each([
    ["stops to publish them", 404],
    ["answers garbage", "<html></html>"],
  ])("stay, and the log says so, where the CA %s", async (_, answer) => {
    const ca = await startPublisher();
    ca.publish([a], listOfA);
    const { held, log } = await startDistribute(ca.origin);
    await eventually(() => expect(held()).toEqual(delivered));
    ca.state.lists = answer;
    await log.until("crl-not-fetched");
    await ca.asked();
    expect(held()).toEqual(delivered);
  });

  test("are emptied before one runs out, so that no proxy refuses the mesh", async () => {
    const ca = await startPublisher();
    ca.publish([a], listOfA);
    let now = crlTime;
    const { held } = await startDistribute(ca.origin, () => now);
    await eventually(() => expect(held()).toEqual(delivered));
    const { nextUpdate = new Date(0) } = readCrl(listOfA);
    now = addSeconds(nextUpdate, -900);
    await ca.asked();
    expect(held()).toEqual(delivered);
    now = addSeconds(nextUpdate, -300);
    await eventually(() => expect(held().lists).toBe(""));
  });

  test("of others alone are not delivered, and the log says why", async () => {
    const ca = await startPublisher();
    ca.publish([a], listOfB);
    const { held, log } = await startDistribute(ca.origin);
    expect(await log.until("crl-refused")).toMatchObject({ detail: "issuer-unknown" });
    await eventually(() => expect(held().lists).toBe(""));
  });
});

async function startGateway(upstream: string) {
  const values = {
    UPSTREAM: upstream,
    TOKEN_FILE: join(await temporaryFolder(), "none"),
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
    LIMITS: patientLimits,
  };
  const begun = Date.now();
  const gateway = await runGateway(GatewayConfiguration.parse(values), {
    ...context(),
    clock: () => new Date(crlTime.getTime() + Date.now() - begun),
  });
  onTestFinished(() => gateway.close(100));
  return (path: string, headers: Record<string, string> = {}) =>
    fetch(`http://127.0.0.1:${gateway.monitoringAddress.port}${path}`, { headers });
}

test("a gateway publishes the CA's bundle and CRLs, and a new root together with its CRL", async () => {
  const ca = await startPublisher();
  ca.publish([a], listOfA);
  const ask = await startGateway(ca.origin);
  const text = async (path: string) => (await ask(path)).text();
  expect(await text("/crl.pem")).toBe(listOfA);
  expect(await text("/bundle.pem")).toBe(pemOf(a));
  expect(await (await ask("/bundle.json")).json()).toMatchObject({
    spiffe_sequence: 1,
    spiffe_refresh_hint: 77,
    keys: [{ use: "x509-svid", x5c: [a.certificate.raw.toString("base64")] }],
  });
  ca.publish([a, b], listOfA);
  await ca.asked();
  expect(await text("/bundle.pem")).toBe(pemOf(a));
  ca.publish([a, b], both);
  await eventually(async () => expect(await text("/bundle.pem")).toBe(pemOf(a, b)));
  expect(await text("/crl.pem")).toBe(both);
  // The same roots were published twice, so their second number may come after them.
  await eventually(async () =>
    expect(await (await ask("/bundle.json")).json()).toMatchObject({ spiffe_sequence: 3 }),
  );
});

test("a gateway numbers a bundle that lacks a new root between the one before and the whole one", async () => {
  const ca = await startPublisher();
  ca.publish([a, b], both);
  const ask = await startGateway(ca.origin);
  const text = async (path: string) => (await ask(path)).text();
  const bundle = async () => (await ask("/bundle.json")).json();
  expect(await bundle()).toMatchObject({ spiffe_sequence: 1 });
  const third = await createCrlAuthority();
  for (let i = 0; i < 3; i++) ca.publish([a, b], both);
  // One root leaves in the moment in which another comes, whose CRL is not there yet.
  ca.publish([b, third], both);
  await eventually(async () => expect(await text("/bundle.pem")).toBe(pemOf(b)));
  expect(await bundle()).toMatchObject({ spiffe_sequence: 4 });
  ca.publish([b, third], `${both}${await third.crl()}`);
  await eventually(async () => expect(await bundle()).toMatchObject({ spiffe_sequence: 6 }));
});

test("a caller that waits at a gateway gets the next bundle and the next CRLs", async () => {
  const ca = await startPublisher();
  ca.publish([a], listOfA);
  const ask = await startGateway(ca.origin);
  const waits: Promise<Response>[] = [];
  for (const path of ["/bundle.json", "/crl.pem"]) {
    const etag = (await ask(path)).headers.get("etag") ?? "";
    waits.push(ask(path, { "if-none-match": etag, prefer: "wait=600" }));
  }
  ca.publish([b], listOfB);
  const answers = await Promise.all(waits);
  for (const { status, headers } of answers) {
    expect([status, headers.get("preference-applied")]).toEqual([200, "wait=300"]);
  }
  expect(await answers[1]?.text()).toBe(listOfB);
});

test("a gateway says 404 for CRLs where the CA has none, and 503 before it knows", async () => {
  const ca = await startPublisher();
  const ask = await startGateway(ca.origin);
  expect((await ask("/bundle.json")).status).toBe(503);
  expect((await ask("/crl.pem")).status).toBe(503);
  ca.publish([a], 404);
  await eventually(async () => expect((await ask("/crl.pem")).status).toBe(404));
  await eventually(async () => expect(await (await ask("/bundle.pem")).text()).toBe(pemOf(a)));
});

describe("the trust of a CA that is followed", () => {
  async function follow(upstream: string, former?: UpstreamTrust, clock = () => crlTime) {
    const log = createEventRecorder();
    const trust = await followUpstreamTrust({ upstream } as never, context(log, clock), former);
    onTestFinished(trust.end);
    const logged = (name: string) => log.operations.filter(({ event }) => event === name);
    return { trust, logged };
  }
  const listed = (trust: UpstreamTrust) =>
    eventually(() => expect(trust.document()).toHaveLength(1));

  test("has no roots before its CRLs are asked for, however late the CA answers", async () => {
    const ca = await startPublisher();
    ca.publish([a], listOfA);
    const { promise, resolve } = Promise.withResolvers<string>();
    ca.state.lists = promise;
    const { trust } = await follow(ca.origin);
    await trust.published.asked;
    expect([trust.published.current()?.pem, trust.roots()]).toEqual([pemOf(a), undefined]);
    resolve(listOfA);
    await trust.asked;
    expect(trust.roots()).toEqual(trust.published.current());
  });

  test("is taken over by a follower of the same CA, with its number, and by none of another", async () => {
    const [ca, other] = await Promise.all([startPublisher(), startPublisher()]);
    ca.publish([a], listOfA, 7);
    const { trust: former } = await follow(ca.origin);
    await listed(former);
    await eventually(() => expect(former.roots()?.sequence).toBe(7));
    const { trust: stranger } = await follow(other.origin, former);
    expect([stranger.published.current(), stranger.document()]).toEqual([undefined, undefined]);
    const { trust } = await follow(ca.origin, former);
    expect(trust.roots()).toEqual({ pem: pemOf(a), sequence: 7 });
    ca.publish([b], listOfB, 6);
    await stranger.end();
    await ca.asked();
    expect(trust.roots()).toEqual({ pem: pemOf(a), sequence: 7 });
    const asked = other.requests.length;
    await ca.asked();
    expect(other.requests).toHaveLength(asked);
  });

  test("has no CRLs before its roots, and keeps those that it has while the CA says 404", async () => {
    const ca = await startPublisher();
    ca.state.lists = listOfA;
    const { trust } = await follow(ca.origin);
    await listed(trust);
    expect(trust.crls()).toBeUndefined();
    ca.publish([a], listOfA);
    await eventually(() => expect(trust.crls()?.pem).toBe(listOfA));
    ca.publish([a], 404);
    await ca.asked();
    expect([trust.document(), trust.crls()?.pem]).toEqual([[expect.anything()], listOfA]);
  });

  test("is delivered anew by a report that is the former one until CRLs are listed as well", async () => {
    const ca = await startPublisher();
    ca.publish([a], listOfA);
    const { trust } = await follow(ca.origin);
    await listed(trust);
    await eventually(() => expect(trust.crls()?.pem).toBe(listOfA));
    const server = "http://127.0.0.1:9";
    const roots = { configMap: undefined, clusterTrustBundles: ["istio.io/istiod-ca"] };
    const places = { ...roots, server, serverRootsFile: undefined, tokenFile: "/none" };
    const former = { ready: true } as RootsReport;
    const report = async (deliversCrls: boolean) => {
      const delivery = await refreshRoots(trust, { ...places, deliversCrls }, context(), former);
      onTestFinished(delivery.end);
      return delivery.report();
    };
    expect(await report(true)).toBe(former);
    expect(await report(false)).not.toBe(former);
  });

  test("lacks no CRL while that of an only new root may come, and then says so", async () => {
    const ca = await startPublisher();
    let now = crlTime;
    const { trust, logged } = await follow(ca.origin, undefined, () => now);
    ca.publish([a], listOfA);
    await eventually(() => expect(trust.crls()?.pem).toBe(listOfA));
    ca.publish([b], listOfA);
    await eventually(() => expect(trust.published.current()?.pem).toBe(pemOf(b)));
    expect([trust.crls()?.pem, logged("crl-not-delivered")]).toEqual(["", []]);
    now = addSeconds(crlTime, 60);
    trust.crls();
    expect(logged("crl-not-delivered")).toHaveLength(1);
  });

  test("has CRLs that fit into no ConfigMap, and ones that it cannot verify, each time that they come", async () => {
    const ca = await startPublisher();
    const { trust, logged } = await follow(ca.origin);
    const extensions = [new x509.Extension("1.2.3.4", false, new Uint8Array(800_000))];
    const long = await a.crl({ extensions });
    for (const times of [1, 2]) {
      ca.publish([a], long);
      await eventually(() =>
        expect(trust.crls()).toMatchObject({ pem: "", sequence: expect.any(Number) }),
      );
      expect(logged("crl-not-delivered")).toHaveLength(times);
      ca.publish([a], both);
      await eventually(() => expect(trust.crls()?.pem).toBe(listOfA));
      expect(logged("crl-refused")).toHaveLength(times);
    }
  });
});
