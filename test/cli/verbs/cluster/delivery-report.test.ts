import { createHash } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { Mint } from "../../../../src/ca/mint.ts";
import { OpenedStore } from "../../../../src/ca/opened-store.ts";
import { trustRoot } from "../../../../src/ca/rotation/adopt.ts";
import {
  type ClusterInspection,
  inspectClusters,
  type LoginChoice,
} from "../../../../src/cli/verbs/cluster/cluster-inspection.ts";
import {
  formatDeliveries,
  formatReach,
  reportDelivery,
  rootReach,
} from "../../../../src/cli/verbs/cluster/delivery-report.ts";
import { formatOldRoots, oldRoots } from "../../../../src/cli/verbs/cluster/old-roots.ts";
import { pushTargets } from "../../../../src/config/cluster-access.ts";
import { ClusterPush } from "../../../../src/delivery/cluster-push.ts";
import { PushContent } from "../../../../src/delivery/push-content.ts";
import { createRootTaint } from "../../../../src/pki/authority/new-taint.ts";
import type { NumberedBundle } from "../../../../src/pki/authority/trust-bundle.ts";
import { Pem } from "../../../../src/pki/encoding/pem.ts";
import { addSeconds, wholeSeconds } from "../../../../src/pki/x509/validity.ts";
import { NodeFetch } from "../../../../src/program/http/http-client.ts";
import { type RunningCa, startCa } from "../../../testkit/ca/running-ca.ts";
import { configurationOf } from "../../../testkit/configuration.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../../../testkit/kubernetes/watched-api.ts";
import { startTlsServer } from "../../../testkit/network/loopback-tls.ts";
import { createRoot } from "../../../testkit/pki/foreign-root.ts";
import { createOperatorFolder, rampartHere } from "../../../testkit/programs/command-line.ts";
import { plainScreen } from "../../../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";
import { hangMilliseconds } from "../../../testkit/time/hang-limit.ts";

const credential = "CLUSTER_CREDENTIAL_A";
const day = 86_400;

let api: WatchedApi;
let ca: RunningCa;

beforeEach(async () => {
  [api, ca] = await Promise.all([startWatchedApi(), startCa({ MAX_WORKLOAD_CERT_TTL: "24h" })]);
  for (const name of ["default", "shop", "web", "kube-public"]) api.put(namespaceOf(name));
  await ca.found();
});

afterEach(() => api.close());

const kubernetes = () => ({ server: api.origin, credential, deliver_roots: true });
const withAccess = () => ({ issuer: "https://a.test", cluster: "a", kubernetes: kubernetes() });
const withoutAccess = { issuer: "https://b.test", cluster: "b" };

const configured = (...ISSUERS: readonly object[]) =>
  configurationOf({ ISSUERS, [credential]: watchedToken });

const look = (table: object = withAccess(), choice: LoginChoice = {}) =>
  inspectClusters(configured(table), choice, {});

async function push(): Promise<void> {
  const { authorities } = ca.certificateAuthority.issuance;
  const limits = { requests: 100, seconds: 60, clustersAtOnce: 1, writesAtOnce: 1 };
  const targets = pushTargets("deliver_roots", configured(withAccess()), {
    fetchTrusting: NodeFetch.trusting,
    fetchTimeoutMilliseconds: hangMilliseconds,
  });
  const content = PushContent.trustBundle(authorities);
  await new ClusterPush({ targets, content, limits, log: ca.log }).deliver(ca.now());
}

async function current(): Promise<NumberedBundle> {
  const { authorities } = ca.certificateAuthority.issuance;
  const { trustBundle, sequence } = await authorities.at(ca.now());
  return { pem: trustBundle.pem, sequence };
}

type ConfigMap = NonNullable<ReturnType<WatchedApi["configMapIn"]>>;

function change(changes: (held: ConfigMap) => object): void {
  const held = api.configMapIn("shop");
  if (!held) throw new Error("shop has no bundle");
  api.put({ ...held, ...changes(held) } as ConfigMap);
}

/** Passes time until a successor is published and does not sign yet. */
async function prepareSuccessor(): Promise<void> {
  ca.pass(3.5 * day);
  await ca.rotate();
}

const reports = async (inspections: readonly ClusterInspection[]) => {
  const bundle = await current();
  return inspections.map((sight) => reportDelivery(sight, bundle));
};
const reach = async (inspections: readonly ClusterInspection[]) =>
  rootReach(await OpenedStore.open(await ca.store.load(), ca.mint), inspections, ca.now());

describe("the bundle of a cluster", () => {
  test("is read with the access of its table: sequence, namespaces, and since when", async () => {
    await push();
    const { sequence } = await current();
    expect(await reports(await look())).toEqual([
      {
        cluster: "a",
        issuer: "https://a.test",
        fault: undefined,
        namespaces: 3,
        bundles: [{ sequence, isCurrent: true, namespaces: 3, since: ca.now() }],
        withoutBundle: 0,
        without: [],
        unread: 0,
      },
    ]);
  });

  test("is one row for each bundle found, the current one first", async () => {
    await push();
    await prepareSuccessor();
    api.remove("ConfigMap", "istio-ca-root-cert", "web");
    const old = api.configMapIn("shop");
    await push();
    if (old) api.put(old);
    api.remove("ConfigMap", "istio-ca-root-cert", "web");
    const shown = formatDeliveries(plainScreen(), await reports(await look()));
    const rows = shown.split("\n").map((row) => row.split(/ {2,}/));
    expect(rows).toEqual([
      ["CLUSTER", "BUNDLE", "NAMESPACES", "SINCE"],
      ["a", expect.stringMatching(/^\d+, current$/), "1 of 3", "2026-11-25 00:00Z"],
      ["a", expect.stringMatching(/^\d+, another$/), "1 of 3", "2026-11-21 12:00Z"],
      ["a", "none", "1 of 3", "-", "web"],
    ]);
  });

  test("is none in a ConfigMap without Istio's label, and the row says so", async () => {
    await push();
    change(({ metadata }) => ({ metadata: { ...metadata, labels: {} } }));
    api.remove("ConfigMap", "istio-ca-root-cert", "web");
    const shown = formatDeliveries(plainScreen(), await reports(await look()));
    expect(shown).toMatch(
      /a +none +2 of 3 +- +shop, web \(1 not labelled istio.io\/config=true, or empty\)$/,
    );
  });

  test("is recognised by its content, whatever the annotations say", async () => {
    await push();
    const annotations = {
      "rampart.dev/spiffe-sequence": "7",
      "rampart.dev/delivered-at": "yesterday\u001b[31m",
    };
    const data = { "root-cert.pem": "mine" };
    change(({ metadata }) => ({ metadata: { ...metadata, annotations, namespace: "web" }, data }));
    change(({ metadata }) => ({ metadata: { ...metadata, annotations } }));
    const { sequence } = await current();
    const [report] = await reports(await look());
    expect(report?.bundles).toMatchObject([
      { sequence, isCurrent: true, namespaces: 2, since: undefined },
      { isCurrent: false, namespaces: 1 },
    ]);
  });

  test("is recognised by its annotations when the CA's own bundle cannot be read", async () => {
    await push();
    const { sequence } = await current();
    const [sight] = await look();
    if (!sight) throw new Error("nobody was looked at");
    const report = reportDelivery(sight, undefined);
    expect(report.bundles).toMatchObject([{ sequence, isCurrent: undefined, namespaces: 3 }]);
    expect(formatDeliveries(plainScreen(), [report])).toContain(`${sequence}  `);
  });
});

describe("the report says why a cluster cannot be inspected, and what to do", () => {
  const unasked = async (table: object) => {
    const [report] = (await look(table)).map((sight) => reportDelivery(sight, undefined));
    return report?.fault;
  };

  test("when its table gives no access", async () => {
    expect(await unasked(withoutAccess)).toMatch(
      /^its table gives no kubernetes access: give --kubeconfig/,
    );
    expect(api.asked).toEqual([]);
  });

  test("when its credential is not set", async () => {
    const other = { ...kubernetes(), credential: `${credential}_B` };
    expect(await unasked({ ...withAccess(), kubernetes: other })).toMatch(
      /^its credential is not set: set CLUSTER_CREDENTIAL_A_B/,
    );
    expect(api.asked).toEqual([]);
  });

  test.each<[string, number, string, RegExp]>([
    ["when it refuses the credential", 403, "{}", /refuses the credential/],
    ["when it answers an error", 500, "\u001b[31m", /status 500/],
    ["when it answers a page", 200, "<html>", /did not answer JSON/],
    ["when it answers no list", 200, "{}", /something else than a list/],
    ["when it answers too much", 200, " ".repeat(11_000_000), /answered too much/],
  ])("%s", async (_, status, text, why) => {
    api.instead = (_, response) => Boolean(response.writeHead(status).end(text));
    expect(await unasked(withAccess())).toMatch(why);
  });

  test("when it is away", async () => {
    await api.close();
    expect(await unasked(withAccess())).toMatch(/^the API server did not answer \(E[A-Z]+\)$/);
  });
});

describe("a login by kubeconfig", () => {
  /** A kubeconfig with one context, which shows this issuer. */
  async function kubeconfig(issuer: string): Promise<string> {
    const { origin, ca } = await startTlsServer(async (request, response) => {
      if (request.url === "/.well-known/openid-configuration") {
        return void response.end(JSON.stringify({ issuer }));
      }
      const authorization = request.headers.authorization ?? "";
      const answer = await fetch(`${api.origin}${request.url}`, { headers: { authorization } });
      response.writeHead(answer.status).end(await answer.text());
    });
    const path = join(await temporaryFolder(), "kubeconfig");
    const cluster = { server: origin, "certificate-authority-data": btoa(ca) };
    const config = {
      "current-context": "one",
      clusters: [{ name: "one", cluster }],
      users: [{ name: "u", user: { token: watchedToken } }],
      contexts: [{ name: "one", context: { cluster: "one", user: "u" } }],
    };
    await writeFile(path, stringify(config));
    return path;
  }

  test("inspects a cluster whose table gives no access, found by its issuer", async () => {
    await push();
    const file = await kubeconfig("https://b.test");
    const inspections = await inspectClusters(configured(withoutAccess), { kubeconfig: file }, {});
    expect(await reports(inspections)).toMatchObject([
      { cluster: "b", namespaces: 3, bundles: [{ isCurrent: true, namespaces: 3 }] },
    ]);
  });

  test("to a cluster that is not configured is reported, and its server gets no further request", async () => {
    const file = await kubeconfig("https://evil.test/\u001b[31m");
    const inspections = await look(withoutAccess, { kubeconfig: file });
    expect(inspections).toMatchObject([
      { cluster: "b", roots: expect.stringMatching(/^its table gives no kubernetes access/) },
      {
        cluster: "context one",
        roots: expect.stringMatching(/^its issuer .* is not among ISSUERS$/),
      },
    ]);
    expect(JSON.stringify(inspections)).not.toMatch(/\\u001b/);
    expect(api.asked).toEqual([]);
  });

  test("by a missing kubeconfig is an OperatorError", async () => {
    const looking = look(withAccess(), { kubeconfig: "/nowhere/kubeconfig" });
    await expect(looking).rejects.toMatchObject({ name: "OperatorError" });
  });
});

describe("the root of the authority that signs next", () => {
  test("is reported as everywhere, or with the namespaces that lack it", async () => {
    await push();
    await prepareSuccessor();
    const before = await reach(await look());
    expect(before).toMatchObject({
      signs: "next",
      isEverywhere: false,
      clusters: [{ cluster: "a", namespaces: 3, having: 0, lacking: ["default", "shop", "web"] }],
    });
    await push();
    const after = await reach(await look());
    expect(after).toMatchObject({ isEverywhere: true, authority: before?.authority });
    if (!before || !after) throw new Error("nobody signs next");
    expect(formatReach(before)).toContain("its root is not everywhere\n");
    expect(formatReach(after).split("\n")).toEqual([
      expect.stringMatching(/^[0-9a-f]{12} signs next, from .*: its root is everywhere$/),
      "  its root is in 3 of 3 namespaces of a",
    ]);
  });

  test("is not reported as everywhere while a cluster cannot be inspected", async () => {
    await push();
    const inspections = await inspectClusters(configured(withAccess(), withoutAccess), {}, {});
    const found = await reach(inspections);
    expect(found?.isEverywhere).toBeUndefined();
    expect(found && formatReach(found).split("\n")).toEqual([
      expect.stringMatching(
        /signs now, and its successor is not minted yet: it is not known whether/,
      ),
      "  its root is in 3 of 3 namespaces of a",
      expect.stringMatching(/^ {2}b cannot be inspected: its table gives no kubernetes access/),
    ]);
  });

  test("counts beside other certificates, with line breaks of any kind", async () => {
    await push();
    const { pem } = await current();
    const text = `# mine\r\n${pem.replaceAll("\n", "\r\n")}`;
    change(() => ({ data: { "root-cert.pem": text } }));
    expect(await reach(await look())).toMatchObject({ isEverywhere: true });
  });

  test.each<[string, (pem: string) => string]>([
    ["a root in one line, as YAML folds a text", (pem) => pem.replaceAll("\n", " ")],
    ["a root behind other text in its first line", (pem) => `# ${pem}`],
    [
      "a last line that is joined to the one before",
      (pem) => pem.replace("\n-----END", "-----END"),
    ],
    ["a root that is cut short", () => "-----BEGIN CERTIFICATE-----\nMIIB"],
    ["a root in a ConfigMap that Istio does not read", (pem) => pem],
  ])("does not count %s, which no proxy reads", async (_, spoil) => {
    await push();
    const { pem } = await current();
    const text = spoil(pem);
    const labels = text === pem ? { labels: {} } : {};
    change(({ metadata }) => ({
      metadata: { ...metadata, ...labels },
      data: { "root-cert.pem": text },
    }));
    expect(await reach(await look())).toMatchObject({
      isEverywhere: false,
      clusters: [{ having: 2, lacking: ["shop"] }],
    });
  });
});

describe("an old root", () => {
  const opened = async () => OpenedStore.open(await ca.store.load(), ca.mint);
  const view = async () => ca.certificateAuthority.issuance.authorities.at(ca.now());

  /** The old roots beside that of the namesake CA, which is one in every namespace with the CA's bundle. */
  async function old() {
    const [namesake] = (await opened()).additionalRoots;
    const found = await oldRoots(await opened(), await look(), view, ca.now());
    expect(found.map(({ sha256 }) => sha256)).toContain(namesake?.id);
    return found.filter(({ sha256 }) => sha256 !== namesake?.id);
  }

  const foreignRoot = () => createRoot({ notAfter: addSeconds(ca.now(), 1e8) });

  test("is none that signs now or next", async () => {
    await push();
    await prepareSuccessor();
    await push();
    expect(await old()).toEqual([]);
  });

  test("is listed with its departure, and still where a cluster has it afterwards", async () => {
    const root = await foreignRoot();
    const at = wholeSeconds(addSeconds(ca.now(), 7200));
    await trustRoot(ca.mint, root, ca.now());
    ca.pass(3600);
    await push();
    const sha256 = createHash("sha256").update(root).digest("hex");
    const clusters = { a: 3 };
    const added = (await opened()).additionalRoots.find(({ id }) => id === sha256);
    expect(await old()).toEqual([{ sha256, leavesAt: added?.schedule.retiresAt, clusters }]);
    if (added) await Mint.recordTaint(ca.mint, createRootTaint(added, at, ca.now()));
    expect(await old()).toEqual([{ sha256, leavesAt: at, clusters }]);
    ca.pass(3600);
    const left = await old();
    expect(left).toEqual([{ sha256, leavesAt: undefined, clusters }]);
    expect(formatOldRoots(plainScreen(), left).split("\n")).toEqual([
      expect.stringMatching(/^OLD ROOT/),
      expect.stringMatching(/^[0-9a-f]{12} +not in it +a \(3\)$/),
      expect.stringMatching(/^Who has an unexpired certificate of another CA/),
    ]);
    await push();
    expect(await old()).toEqual([]);
  });

  test("that the CA never had is listed, unless its own bundle cannot be read", async () => {
    await push();
    const data = { "root-cert.pem": Pem.format("CERTIFICATE", await foreignRoot()) };
    change(() => ({ data }));
    expect(await old()).toMatchObject([{ leavesAt: undefined, clusters: { a: 1 } }]);
    const blind = await oldRoots(await opened(), await look(), async () => undefined, ca.now());
    expect(blind).toMatchObject([{ leavesAt: expect.any(Date), clusters: { a: 2 } }]);
  });
});

test("`cluster check` and `authority plan` print the delivery", async () => {
  const folder = await createOperatorFolder();
  onTestFinished(() => rm(folder.path, { recursive: true, force: true }));
  folder.secrets.push(watchedToken);
  const lines = [
    `STORE_DIRECTORY = "${join(folder.path, "store")}"`,
    "[[ISSUERS]]",
    'issuer = "https://127.0.0.1:9"',
    'cluster = "a"',
    "[ISSUERS.kubernetes]",
    `server = "${api.origin}"`,
    `credential = "${credential}"`,
    'review = "instead-of-keys"',
  ];
  await writeFile(join(folder.path, "rampart.toml"), lines.join("\n"));
  const KEK = `k1:${Buffer.alloc(32, 7).toString("base64")}`;
  const run = (words: string, environment: Record<string, string> = {}) =>
    rampartHere(folder, `${words} -c ./rampart.toml`, { KEK, ...environment });
  expect(await run("authority init --yes")).toMatchObject({ code: 0 });
  const access = { [credential]: watchedToken };
  const [plan, blind, check] = await Promise.all([
    run("authority plan", access),
    run("authority plan --json"),
    run("cluster check --json", access),
  ]);
  expect(plan.stdout).toMatch(/^a +none +3 of 3 +- +default, shop, web$/m);
  expect(plan.stdout).toContain("its root is in 0 of 3 namespaces of a, not in default, shop, web");
  expect(JSON.parse(blind.stdout)).toMatchObject({
    deliveries: [{ cluster: "a", fault: expect.stringMatching(/^its credential is not set/) }],
    rootReach: { signs: expect.any(String), clusters: [{ cluster: "a" }] },
  });
  expect(JSON.parse(check.stdout)).toMatchObject([
    { cluster: "a", source: "api", delivery: { namespaces: 3, withoutBundle: 3 } },
  ]);
});
