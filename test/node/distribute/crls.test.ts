import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { foundIfEmpty } from "../../../src/ca/rotation/rotate.ts";
import { pause } from "../../../src/foundation/pause.ts";
import { DistributeConfiguration, distribute } from "../../../src/node/distribute/distribute.ts";
import { followUpstreamTrust } from "../../../src/node/distribute/upstream-trust.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../../testkit/kubernetes/watched-api.ts";
import { createEventRecorder, type EventRecorder } from "../../testkit/log/event-recorder.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { createCrlAuthority } from "../../testkit/pki/crl-authority.ts";
import { readCrl } from "../../testkit/pki/crls.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const day = new Date().toISOString().slice(0, 10);

let api: WatchedApi;
let ca: RunningCa;
/** The answer for `/crl.pem` in place of the CA's. */
let instead: string | 404 | undefined;
/** How far the clock of the program is ahead. */
let aheadSeconds: number;
/** Of one test: a program of the test before may have logged the same event for another reason. */
let log: EventRecorder;
/** How often the program has asked for the CRLs. */
let asks: number;

beforeEach(async () => {
  const clock = (): Date => new Date();
  [api, ca] = await Promise.all([
    startWatchedApi(),
    startCa({ CRL: "on", INCEPTION_DATE: day }, { clock }),
  ]);
  onTestFinished(() => api.close());
  await foundIfEmpty(ca.mint, new Date());
  instead = undefined;
  aheadSeconds = 0;
  asks = 0;
  log = createEventRecorder();
  for (const name of ["default", "shop"]) api.put(namespaceOf(name));
});

async function start(values: Record<string, unknown> = { CRL_CONFIG_MAPS: true }) {
  const folder = await temporaryFolder();
  await writeFile(join(folder, "token"), `${watchedToken}\n`);
  const upstream = await startLoopbackServer(async ({ url = "/" }, response) => {
    if (url === "/crl.pem") asks++;
    if (url === "/crl.pem" && instead !== undefined) {
      return void response.writeHead(instead === 404 ? 404 : 200).end(String(instead));
    }
    const answer = await ca.app.request(url);
    response.writeHead(answer.status).end(await answer.text());
  });
  const configuration = DistributeConfiguration.parse(
    {
      UPSTREAM: upstream.origin,
      KUBERNETES_SERVER: api.origin,
      KUBERNETES_TOKEN_FILE: join(folder, "token"),
      MONITORING_LISTEN: "127.0.0.1:0",
      ...values,
    },
    {},
  );
  const running = await distribute(configuration, {
    log,
    clock: () => addSeconds(new Date(), aheadSeconds),
    // The CA's own pauses are minutes.
    pause: (milliseconds, signal) => pause(Math.min(milliseconds, 50), signal),
  });
  onTestFinished(() => running.close(100));
  return async () =>
    (await fetch(`http://127.0.0.1:${running.monitoringAddress.port}/readyz`)).json();
}

/** Resolves when the program has worked on an answer that begins now. */
async function askedAgain(): Promise<void> {
  const before = asks;
  await eventually(() => expect(asks).toBeGreaterThan(before + 2));
}

const published = async (): Promise<string> => (await ca.app.request("/crl.pem")).text();

const delivered = (namespace: string, pem: string): Promise<unknown> =>
  eventually(() =>
    expect(api.configMapIn(namespace, "istio-ca-crl")).toMatchObject({
      metadata: { labels: { "istio.io/config": "true" } },
      data: { "ca-crl.pem": pem },
    }),
  );

test("are delivered to every namespace as Istio names them", async () => {
  const readiness = await start();
  api.put(namespaceOf("late"));
  for (const namespace of ["default", "shop", "late"])
    await delivered(namespace, await published());
  await eventually(async () => expect(await readiness()).toMatchObject({ ready: true }));
  expect(api.configMapIn("default")).toMatchObject({
    data: { "root-cert.pem": expect.stringContaining("CERTIFICATE") },
  });
});

test("are known before the first roots are, however late the CA answers for them", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { origin: upstream } = await startLoopbackServer(async ({ url = "/" }, response) => {
    if (url === "/crl.pem") await promise;
    const answer = await ca.app.request(url);
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
  });
  const source = { upstream, caFile: undefined, caCache: undefined } as never;
  const trust = await followUpstreamTrust(source, { log, clock: () => new Date() } as never);
  onTestFinished(trust.end);
  await trust.published.asked;
  expect([trust.published.current()?.sequence, trust.roots()]).toEqual([
    expect.any(Number),
    undefined,
  ]);
  resolve();
  await trust.asked;
  expect(trust.roots()).toEqual(trust.published.current());
});

test("that cannot be listed keep roots waiting for ten seconds, and the program is not ready", async () => {
  let isRefused = false;
  api.instead = ({ url = "" }, response) => {
    if (!url.includes("istio-ca-crl")) return false;
    isRefused = true;
    return Boolean(response.writeHead(403).end("{}"));
  };
  const readiness = await start();
  await eventually(() => expect(isRefused).toBe(true));
  await askedAgain();
  expect(api.configMapIn("shop")).toBeUndefined();
  aheadSeconds = 10;
  for (const name of ["default", "shop"])
    await eventually(() => expect(api.configMapIn(name)).toBeDefined());
  await eventually(async () => {
    const { ready, reasons } = await readiness();
    expect([ready, reasons.every((each: string) => each.startsWith("CRLs: "))]).toEqual([
      false,
      true,
    ]);
  });
});

test("are delivered only where an operator wants it", async () => {
  const readiness = await start({});
  await eventually(async () => expect(await readiness()).toMatchObject({ ready: true }));
  expect(api.configMapIn("default", "istio-ca-crl")).toBeUndefined();
});

test("are cleared where the CA publishes none any more", async () => {
  api.put({
    kind: "ConfigMap",
    metadata: {
      name: "istio-ca-crl",
      namespace: "shop",
      labels: { "istio.io/config": "true" },
    },
    data: { "ca-crl.pem": "an old list" },
  });
  instead = 404;
  await start();
  await delivered("shop", "");
});

test.each<[string, typeof instead]>([
  ["stops to publish them", 404],
  ["answers garbage", "<html></html>"],
])("stay, and the log says so, where the CA %s", async (_, answer) => {
  await start();
  await delivered("shop", await published());
  instead = answer;
  await log.until("crl-not-fetched");
  await askedAgain();
  await delivered("shop", await published());
});

test("are emptied before one runs out, so that no proxy refuses the mesh", async () => {
  await start();
  await delivered("shop", await published());
  instead = "";
  const { nextUpdate = new Date(0) } = readCrl(await published());
  const leftSeconds = (nextUpdate.getTime() - Date.now()) / 1000;
  aheadSeconds = leftSeconds - 900;
  await askedAgain();
  await delivered("shop", await published());
  aheadSeconds = leftSeconds - 300;
  await delivered("shop", "");
});

test("are not delivered while a root has none, and the log says which", async () => {
  const stranger = await createCrlAuthority();
  instead = await stranger.crl();
  await start();
  expect(await log.until("crl-refused")).toMatchObject({ detail: "issuer-unknown" });
  await delivered("shop", "");
});
