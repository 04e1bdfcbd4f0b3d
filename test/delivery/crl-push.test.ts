import { afterEach, beforeEach, expect, test } from "vitest";
import { crlTargets } from "../../src/compose/root-targets.ts";
import { sealRoot } from "../../src/custody/root-statement.ts";
import { crlContent } from "../../src/delivery/crl-content.ts";
import { createRootPush } from "../../src/delivery/root-push.ts";
import { fetchTrusting } from "../../src/host/http/node-fetch.ts";
import { createAdditionalRoot } from "../../src/pki/authority/additional-root.ts";
import { revokeCertificates } from "../testkit/ca/revoke-certificates.ts";
import { type RunningCa, startCa } from "../testkit/ca/running-ca.ts";
import { configurationOf } from "../testkit/configuration.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../testkit/kubernetes/watched-api.ts";
import { readCrl } from "../testkit/pki/crls.ts";
import { createRoot } from "../testkit/pki/foreign-root.ts";
import { hangMilliseconds } from "../testkit/time/hang-limit.ts";

const credential = "CLUSTER_CREDENTIAL_A";
const limits = { requests: 1000, seconds: 60, clustersAtOnce: 1, writesAtOnce: 2 };

let api: WatchedApi;
let ca: RunningCa;

beforeEach(async () => {
  [api, ca] = await Promise.all([startWatchedApi(), startCa({ CRL: "on" })]);
  await ca.found();
  for (const name of ["default", "shop"]) api.put(namespaceOf(name));
});
afterEach(() => api.close());

/** A run of the push, as the cron begins it. */
async function push(from: RunningCa = ca, table: object = { deliver_crls: true }): Promise<void> {
  const kubernetes = { server: api.origin, credential, ...table };
  const configuration = configurationOf({
    ISSUERS: [{ issuer: "https://a.test", kubernetes }],
    [credential]: watchedToken,
  });
  const targets = crlTargets(configuration, {
    fetchTrusting,
    fetchTimeoutMilliseconds: hangMilliseconds,
  });
  const { crls, issuance } = from.certificateAuthority;
  const content = crlContent(crls, issuance.authorities, from.log);
  await createRootPush({ targets, content, limits, log: from.log }).deliver(from.now());
}

const delivered = (namespace: string): unknown => api.configMapIn(namespace, "istio-ca-crl")?.data;

test("are in every namespace after a run, and the next after the next", async () => {
  await push();
  const published = await (await ca.app.request("/crl.pem")).text();
  for (const each of ["default", "shop"])
    expect(delivered(each)).toEqual({ "ca-crl.pem": published });
  await revokeCertificates(ca, ["0a"], ca.now());
  ca.pass(120);
  await push();
  const { "ca-crl.pem": next = "" } = delivered("shop") as Record<string, string>;
  expect(readCrl(next).entries).toHaveLength(1);
  expect(ca.log.operations.filter(({ event }) => event === "crls-delivered")).toHaveLength(2);
});

test("are pushed only where a table says so", async () => {
  await push(ca, { deliver_roots: true });
  expect(delivered("shop")).toBeUndefined();
});

test("are cleared by a CA that publishes none", async () => {
  await push();
  const without = await startCa();
  await without.found();
  await push(without);
  expect(delivered("shop")).toEqual({ "ca-crl.pem": "" });
});

// Envoy refuses every certificate of a root without a CRL, once it has another.
test("are emptied while a root has none, and the log says so", async () => {
  await push();
  const notAfter = new Date("2030-01-01T00:00:00Z");
  const root = await createAdditionalRoot(await createRoot({ notAfter }), new Date(0));
  await ca.store.put(await sealRoot(root, ca.mint.trustDomain, ca.mint.keks));
  ca.pass(120);
  await push();
  expect(delivered("shop")).toEqual({ "ca-crl.pem": "" });
  expect(await ca.log.until("crls-emptied")).toMatchObject({
    detail: "no proxy gets CRLs: roots without one: 1",
  });
});
