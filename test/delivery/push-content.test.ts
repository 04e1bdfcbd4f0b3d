import { setTimeout } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createPushes, pushTargets } from "../../src/config/cluster-access.ts";
import { Statement } from "../../src/custody/statement.ts";
import { ClusterPush } from "../../src/delivery/cluster-push.ts";
import { PushContent } from "../../src/delivery/push-content.ts";
import { HeldRoots } from "../../src/delivery/root-config-map.ts";
import { AdditionalRoot } from "../../src/pki/authority/trust-bundle.ts";
import { Pem } from "../../src/pki/encoding/pem.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { NodeFetch } from "../../src/program/http/http-client.ts";
import { createMemoryStore } from "../testkit/ca/memory-store.ts";
import { revokeCertificates } from "../testkit/ca/revoke-certificates.ts";
import { type RunningCa, startCa } from "../testkit/ca/running-ca.ts";
import { configurationOf, randomKek } from "../testkit/configuration.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../testkit/kubernetes/watched-api.ts";
import { createCrlAuthority, parsedCrl } from "../testkit/pki/crl-authority.ts";
import { readCrl } from "../testkit/pki/crls.ts";
import { createRoot } from "../testkit/pki/foreign-root.ts";
import { hangMilliseconds } from "../testkit/time/hang-limit.ts";

const credential = "CLUSTER_CREDENTIAL_A";
const limits = { requests: 1000, seconds: 60, clustersAtOnce: 1, writesAtOnce: 2 };

const listOfStranger = Pem.format(
  "X509 CRL",
  parsedCrl(await (await createCrlAuthority()).crl()).der,
);

const values = { CRL: "on", KEK: randomKek() };
let api: WatchedApi;
let ca: RunningCa;

beforeEach(async () => {
  [api, ca] = await Promise.all([startWatchedApi(), startCa(values, { hasNoNamesake: true })]);
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
  const targets = pushTargets("deliver_crls", configuration, {
    fetchTrusting: NodeFetch.trusting,
    fetchTimeoutMilliseconds: hangMilliseconds,
  });
  const { crls, issuance } = from.certificateAuthority;
  const content = PushContent.crls(crls, issuance.authorities, from.log);
  await new ClusterPush({ targets, content, limits, log: from.log }).deliver(from.now());
}

const delivered = (namespace: string): unknown => api.configMapIn(namespace, "istio-ca-crl")?.data;

test("CRLs are in every namespace after a run, and the next CRLs after the next run", async () => {
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

test("CRLs are pushed only where a table says so", async () => {
  await push(ca, { deliver_roots: true });
  expect(delivered("shop")).toBeUndefined();
});

test("CRLs are cleared by a CA that publishes none", async () => {
  await push();
  const without = await startCa();
  await without.found();
  await push(without);
  expect(delivered("shop")).toEqual({ "ca-crl.pem": "" });
});

// Envoy refuses every certificate of a root without a CRL, once it has another.
test("CRLs are emptied while a root has no CRL, and the log says so", async () => {
  await push();
  const notAfter = new Date("2030-01-01T00:00:00Z");
  const root = await AdditionalRoot.create(await createRoot({ notAfter }), new Date(0));
  await ca.store.put(await Statement.seal("root", root, ca.mint));
  ca.pass(120);
  await push();
  expect(delivered("shop")).toEqual({ "ca-crl.pem": "" });
  expect(await ca.log.until("crls-emptied")).toMatchObject({
    detail: "no proxy gets CRLs: roots without one: 1",
  });
});

test("CRLs that no ConfigMap has room for are emptied, which is logged once, and again where it comes back", async () => {
  const { crls, issuance } = ca.certificateAuthority;
  if (!crls) throw new Error("CRLs are off");
  let pem: string | undefined;
  const changing: typeof crls = async (now) => {
    const published = await crls(now);
    return { ...published, pem: pem ?? published.pem };
  };
  const content = PushContent.crls(changing, issuance.authorities, ca.log);
  const said = () => ca.log.operations.filter(({ event }) => event === "crls-emptied").length;
  for (const [long, times] of [
    [true, 1],
    [true, 1],
    [false, 1],
    [true, 2],
  ] as const) {
    pem = long ? "x".repeat(HeldRoots.maximumOctets + 1) : undefined;
    const delivered = await content.at(ca.now());
    expect(delivered?.pem === "").toBe(long);
    expect(said()).toBe(times);
  }
  expect(await ca.log.until("crls-emptied")).toMatchObject({
    detail: `no proxy gets CRLs: they have more than ${HeldRoots.maximumOctets} octets`,
  });
});

describe("another replica", () => {
  /** Another process of the same CA, whose store shows all writes so far. */
  async function replica(): Promise<RunningCa> {
    return startCa(values, {
      store: createMemoryStore(...(await ca.store.load())),
      clock: () => ca.now(),
    });
  }
  const listsIn = (namespace: string): string =>
    (delivered(namespace) as Record<string, string>)["ca-crl.pem"] ?? "";
  const publishedBy = async ({ app }: RunningCa) => (await app.request("/crl.pem")).text();

  test("leaves CRLs that say the same as its own", async () => {
    await push();
    const first = listsIn("shop");
    const other = await replica();
    expect(await publishedBy(other)).not.toBe(first);
    const writes = api.asked.length;
    await push(other);
    expect(api.asked.slice(writes).filter((each) => each.startsWith("PATCH"))).toEqual([]);
    expect(listsIn("shop")).toBe(first);
    expect(other.log.operations.at(-1)).toMatchObject({ event: "crls-delivered", written: 0 });
  });

  test("leaves newer CRLs that it lacks a revocation of, and later adds what only it knows", async () => {
    const behind = await replica();
    await revokeCertificates(ca, ["0a"], ca.now());
    ca.pass(120);
    await push();
    const newer = listsIn("shop");
    await push(behind);
    expect(listsIn("shop")).toBe(newer);
    await revokeCertificates(behind, ["0a"], ca.now());
    await revokeCertificates(behind, ["0b"], ca.now());
    ca.pass(120);
    await push(behind);
    expect(readCrl(listsIn("shop")).entries).toHaveLength(2);
  });

  test.each<[string, (newer: string) => string]>([
    ["of another signature", (pem) => withLastOctet(pem, 1)],
    ["with more around it", (pem) => `${pem}\nalso this`],
    ["in two", (pem) => pem + pem],
    ["beside a stranger's", (pem) => pem + listOfStranger],
    ["that is broken", (pem) => pem.replaceAll("M", "N")],
  ])("replaces newer CRLs %s", async (_, change) => {
    const behind = await replica();
    await revokeCertificates(ca, ["0a"], ca.now());
    ca.pass(120);
    await push();
    const config = api.configMapIn("shop", "istio-ca-crl");
    if (!config) throw new Error("nothing was delivered");
    api.put({ ...config, data: { "ca-crl.pem": change(listsIn("shop")) } });
    await push(behind);
    expect(listsIn("shop")).toBe(await publishedBy(behind));
  });

  test("replaces CRLs of higher numbers in time before they expire", async () => {
    const behind = await replica();
    // The operator's clock was two days ahead, so that no list of this process gets a higher number for so long.
    await revokeCertificates(ca, ["0a"], addSeconds(ca.now(), 48 * 3600));
    ca.pass(120);
    await push();
    const ahead = listsIn("shop");
    ca.pass(24 * 3600 - 120 - 601);
    await push(behind);
    expect(listsIn("shop")).toBe(ahead);
    ca.pass(2);
    await push(behind);
    expect(listsIn("shop")).toBe(await publishedBy(behind));
  });

  test("replaces CRLs of its own numbers that lack a revocation which it knows", async () => {
    const other = await replica();
    // Both know one, of the same instant.
    await revokeCertificates(ca, ["0a"], ca.now());
    await revokeCertificates(other, ["0b"], ca.now());
    ca.pass(120);
    await push();
    const first = readCrl(listsIn("shop"));
    await push(other);
    const next = readCrl(listsIn("shop"));
    expect(next.number).toBe(first.number);
    expect(next.entries.map(([serial]) => serial)).toEqual(["0b"]);
  });

  test("replaces older CRLs", async () => {
    await push();
    await revokeCertificates(ca, ["0a"], ca.now());
    ca.pass(120);
    const other = await replica();
    await push(other);
    expect(readCrl(listsIn("shop")).entries).toHaveLength(1);
  });
});

/** Changes the signature, which is at the end. */
function withLastOctet(pem: string, change: number): string {
  const [begin = "", ...rest] = pem.trimEnd().split("\n");
  const end = rest.pop() ?? "";
  const der = Buffer.from(rest.join(""), "base64");
  der[der.length - 1] = (der.at(-1) ?? 0) ^ change;
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return `${[begin, ...lines, end].join("\n")}\n`;
}

/** Fetches as ever, unless there is an answer before. */
const fetching =
  (
    before: (url: string, init: RequestInit) => Promise<Response | undefined>,
  ): typeof NodeFetch.trusting =>
  (trusted) => {
    const send = NodeFetch.trusting(trusted);
    return async (url, init) => (await before(url, init)) ?? send(url, init);
  };

/** Requests for CRLs arrive so late that nothing but a wait for them keeps their order. */
const fetchLate = fetching(async (url) => {
  if (url.startsWith(api.origin) && url.includes("istio-ca-crl")) await setTimeout(100);
  return undefined;
});

/** Both pushes of a CA to API servers, which a mesh that moves may have under one name. */
function pushesBy(
  fetching: typeof NodeFetch.trusting,
  servers = [api.origin],
  changes: object = {},
) {
  const ISSUERS = servers.map((server, i) => ({
    issuer: `https://${i}.test`,
    kubernetes: { server, credential, deliver_roots: true, deliver_crls: true },
  }));
  const configuration = configurationOf({ ISSUERS, [credential]: watchedToken });
  const by = { fetchTrusting: fetching, fetchTimeoutMilliseconds: hangMilliseconds };
  const parts = { limits: { ...limits, clustersAtOnce: 2, ...changes }, log: ca.log };
  return createPushes(configuration, ca.certificateAuthority, by, parts);
}

const writesTo = (server: WatchedApi): unknown[] =>
  server.asked.filter((each) => each.startsWith("PATCH")).map((each) => each.split("/").at(-1));

const crlsFirst = [
  ...["istio-ca-crl", "istio-ca-crl"],
  ...["istio-ca-root-cert", "istio-ca-root-cert"],
];

test("CRLs come before the roots in each cluster, so that no root is without its CRL", async () => {
  const { deliver } = pushesBy(fetchLate);
  await deliver(ca.now());
  expect(writesTo(api)).toEqual(crlsFirst);
});

test("CRLs come before the roots at each of two API servers of one name", async () => {
  const quick = await startWatchedApi();
  for (const name of ["default", "shop"]) quick.put(namespaceOf(name));
  await pushesBy(fetchLate, [api.origin, quick.origin]).deliver(ca.now());
  await quick.close();
  expect([writesTo(api), writesTo(quick)]).toEqual([crlsFirst, crlsFirst]);
});

const rootCount = (pem: string): number => pem.split("BEGIN").length - 1;

/** Has the CA publish a second root, a while after the first. */
async function publishSecondRoot(): Promise<void> {
  while (rootCount(await (await ca.app.request("/bundle.pem")).text()) < 2) {
    ca.pass(30 * 24 * 3600);
    await ca.rotate();
    ca.pass(15);
  }
}

const rootsInBoth = (): number[] =>
  ["default", "shop"].map((each) =>
    rootCount(JSON.stringify(api.configMapIn(each, "istio-ca-root-cert")?.data)),
  );

const refuseInShop = fetching(async (url, { method }) =>
  method === "PATCH" && url.includes("/shop/configmaps/istio-ca-crl")
    ? new Response(undefined, { status: 500 })
    : undefined,
);

test("a namespace whose CRLs are refused gets new roots a while later, and the others at once", async () => {
  await pushesBy(NodeFetch.trusting).deliver(ca.now());
  await publishSecondRoot();
  // Each run of a Worker may be another isolate's.
  const { deliver, roots } = pushesBy(refuseInShop);
  await deliver(ca.now());
  expect(rootsInBoth()).toEqual([2, 1]);
  expect([...roots.outcomes()]).toMatchObject([{ fault: "a namespace waits for its CRLs" }]);
  ca.pass(60);
  await pushesBy(refuseInShop).deliver(ca.now());
  expect(rootsInBoth()).toEqual([2, 1]);
  ca.pass(60);
  await pushesBy(refuseInShop).deliver(ca.now());
  expect(rootsInBoth()).toEqual([2, 2]);
});

test.each([0, 1])(
  "roots wait where a run has not come with the CRLs, however old: %i",
  async (milliseconds) => {
    await pushesBy(NodeFetch.trusting).deliver(ca.now());
    await publishSecondRoot();
    ca.pass(3600 + milliseconds / 1000);
    const names = ["default", "shop"];
    const former = names.map((each) => api.configMapIn(each, "istio-ca-crl"));
    // Both lists, and one write.
    const { deliver } = pushesBy(NodeFetch.trusting, [api.origin], {
      requests: 3,
      writesAtOnce: 1,
    });
    await deliver(ca.now());
    const crlsInBoth = names.map((each) => rootCount(JSON.stringify(delivered(each))));
    expect(crlsInBoth.toSorted()).toEqual([1, 2]);
    expect(rootsInBoth()).toEqual(crlsInBoth);
    // The next run has its write for the same CRLs, and one left for the roots of the other namespace.
    const [written] = former.splice(crlsInBoth.indexOf(2), 1);
    if (written) api.put(written);
    await deliver(ca.now());
    expect(rootsInBoth()).toEqual(crlsInBoth);
  },
);

const withoutCrls = fetching(async (url) =>
  url.includes("istio-ca-crl") ? new Response(undefined, { status: 403 }) : undefined,
);

test.each<[string, () => typeof NodeFetch.trusting]>([
  [
    "that the CA cannot say",
    () => {
      const { certificateAuthority } = ca;
      const crls = () => Promise.reject(new Error("no key opens"));
      ca = { ...ca, certificateAuthority: { ...certificateAuthority, crls } };
      return NodeFetch.trusting;
    },
  ],
  ["of a cluster in which they cannot be listed", () => withoutCrls],
])("new roots wait for CRLs %s, for as long", async (_, prepare) => {
  await pushesBy(NodeFetch.trusting).deliver(ca.now());
  await publishSecondRoot();
  const fetch = prepare();
  await pushesBy(fetch).deliver(ca.now());
  expect(rootsInBoth()).toEqual([1, 1]);
  ca.pass(90);
  await pushesBy(fetch).deliver(ca.now());
  expect(rootsInBoth()).toEqual([2, 2]);
});

test("a cluster that comes back within a run gets its CRLs first all the same", async () => {
  await pushesBy(NodeFetch.trusting).deliver(ca.now());
  await publishSecondRoot();
  ca.pass(3600);
  let isAway = true;
  const fetch = fetching(async () => {
    if (!isAway) return undefined;
    isAway = false;
    throw new TypeError("fetch failed");
  });
  const { deliver } = pushesBy(fetch);
  api.asked.length = 0;
  await deliver(ca.now());
  expect(writesTo(api)).toEqual(crlsFirst);
});
