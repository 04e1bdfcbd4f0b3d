import { beforeEach, describe, expect, test } from "vitest";
import { deployedReadyUrl } from "../../../../src/cli/session/local-worker.ts";
import { inspectIssuers } from "../../../../src/cli/verbs/cluster/cluster-check.ts";
import { inspectClusters } from "../../../../src/cli/verbs/cluster/cluster-inspection.ts";
import { reportDelivery } from "../../../../src/cli/verbs/cluster/delivery-report.ts";
import {
  clusterFindings,
  crlInspectionFindings,
  knowledgeOf,
  readinessFindings,
  skewFindings,
} from "../../../../src/cli/verbs/doctor/world-findings.ts";
import { rootConfigMap } from "../../../../src/delivery/root-config-map.ts";
import { readyUrlAt } from "../../../../src/node/files/places.ts";
import type { Finding } from "../../../../src/status/finding.ts";
import { issuerFindings } from "../../../../src/status/issuers.ts";
import { type RunningCa, startCa } from "../../../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf } from "../../../testkit/callers/tokens.ts";
import { configurationOf } from "../../../testkit/configuration.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../../../testkit/kubernetes/watched-api.ts";
import { startLoopbackServer } from "../../../testkit/network/loopback-server.ts";

const namesOf = (found: readonly Finding[]): string[] => found.map(({ name }) => name);
const seconds = (now: Date, count: number): Date => new Date(now.getTime() + count * 1000);

describe("the CA itself", () => {
  const directory = "/var/lib/rampart";

  test.each<[string, number, unknown, readonly object[]]>([
    ["is well", 200, { ready: true, authority: "a", reasons: [] }, []],
    [
      "issues, and has reasons",
      200,
      { ready: true, reasons: ["the store takes no record (ENOSPC)"] },
      [{ name: "ca-needs-attention", what: expect.stringContaining("takes no record (ENOSPC).") }],
    ],
    [
      "issues nothing",
      503,
      { ready: false, reasons: ["one", "\u001b[31mtwo"] },
      [{ name: "ca-not-ready", what: expect.stringMatching(/\/readyz says: one; \?\[31mtwo\.$/) }],
    ],
    [
      "issues nothing without a reason",
      503,
      { ready: false, reasons: [] },
      [{ name: "ca-not-ready" }],
    ],
    ["is another program", 200, { status: "up" }, [{ name: "ca-away" }]],
    ["answers no JSON", 404, "not found", [{ name: "ca-away" }]],
  ])("that %s, with %i", async (_, status, said, expected) => {
    const server = await startLoopbackServer((_, response) => {
      response.writeHead(status).end(typeof said === "string" ? said : JSON.stringify(said));
    });
    const found = await readinessFindings({ readyUrl: `${server.origin}/readyz`, directory });
    expect(found).toMatchObject(expected);
    expect(found).toHaveLength(expected.length);
  });

  test("that does not run has ca-away where its store says that it runs here, and only there", async () => {
    const readyUrl = "http://127.0.0.1:9/readyz";
    const [away, ...more] = await readinessFindings({ readyUrl, directory });
    expect(away).toMatchObject({
      name: "ca-away",
      what: `${readyUrl} did not answer (ECONNREFUSED).`,
    });
    expect(more).toEqual([]);
    expect(await readinessFindings({ readyUrl })).toEqual([]);
    const remote = readyUrl.replace("http:", "https:");
    expect(namesOf(await readinessFindings({ readyUrl: remote }))).toEqual(["ca-away"]);
    expect(await readinessFindings({ directory })).toEqual([]);
  });
});

test.each([
  [{ port: 15014 }, "http://127.0.0.1:15014/readyz"],
  [{ host: "10.0.0.7", port: 80 }, "http://10.0.0.7:80/readyz"],
  [{ host: "::1", port: 80 }, "http://[::1]:80/readyz"],
  [{ port: 0 }, undefined],
])("serve that listens on %o is asked at %s", (listen, url) => {
  expect(readyUrlAt(listen)).toBe(url);
});

test.each([
  [["ca.example.com"], "https://ca.example.com/readyz"],
  [[{ pattern: "ca.example.com/*", zone_name: "example.com" }], "https://ca.example.com/readyz"],
  [
    ["*.example.com/*", { pattern: "ca.example.com", custom_domain: true }],
    "https://ca.example.com/readyz",
  ],
  [["*.example.com/*"], undefined],
  [undefined, undefined],
])("a Worker with the routes %o is asked at %s", (routes, url) => {
  expect(deployedReadyUrl(routes)).toBe(url);
});

describe("an issuer", () => {
  const clock = () => new Date("2026-11-21T12:00:00Z");

  async function found(date: string, ...otherKeys: readonly object[]): Promise<readonly Finding[]> {
    const keys = [...jwksOf(await createTokenKey("ES256", "k1")).keys, ...otherKeys];
    const server = await startLoopbackServer((_, response) => {
      response.setHeader("date", date).end(JSON.stringify({ keys }));
    });
    const ISSUERS = [{ issuer: "https://a.test", jwks_uri: `${server.origin}/jwks` }];
    const reports = await inspectIssuers(configurationOf({ ISSUERS }), clock);
    return [...issuerFindings(reports), ...skewFindings(reports)];
  }

  test.each([
    ["Sat, 21 Nov 2026 12:00:31 GMT", "31s ahead of"],
    ["Sat, 21 Nov 2026 11:58:00 GMT", "120s behind"],
  ])("whose clock says %s has clock-skew: it is %s this machine's", async (date, what) => {
    const [finding, ...more] = await found(date);
    expect(finding).toMatchObject({ name: "clock-skew", what: expect.stringContaining(what) });
    expect(more).toEqual([]);
  });

  test.each(["Sat, 21 Nov 2026 12:00:30 GMT", "Sat, 21 Nov 2026 11:59:30 GMT", "yesterday"])(
    "whose clock says %s has no finding",
    async (date) => {
      expect(await found(date)).toEqual([]);
    },
  );

  test.each<[string, object]>([
    ["a curve that is not supported", { kty: "EC", crv: "secp256k1", x: "AA", y: "AA" }],
    ["a symmetric key", { kty: "oct", use: "sig" }],
    ["an algorithm of another kind", { kty: "RSA", alg: "HS256", n: "AQAB", e: "AQAB" }],
    ["an RSA key without a modulus", { kty: "RSA", e: "AQAB" }],
    ["what is no JWK", { kid: "\u001b[31mred" }],
  ])("with %s has issuer-key-unusable", async (_, key) => {
    const findings = await found("yesterday", { kid: "old", ...key });
    expect(namesOf(findings)).toEqual(["issuer-key-unusable"]);
    expect(findings[0]?.what).not.toContain("\u001b");
  });

  test("may publish keys for another use", async () => {
    expect(await found("yesterday", { kty: "RSA", use: "enc" })).toEqual([]);
  });
});

describe("what a cluster holds", () => {
  const credential = "CLUSTER_CREDENTIAL_A";
  let api: WatchedApi;
  let ca: RunningCa;

  beforeEach(async () => {
    [api, ca] = await Promise.all([startWatchedApi(), startCa({ CRL: "on" })]);
    for (const name of ["shop", "web"]) api.put(namespaceOf(name));
    await ca.found();
    return () => api.close();
  });

  async function inspected(deliverCrls = false) {
    const kubernetes = { server: api.origin, credential, deliver_crls: deliverCrls };
    const ISSUERS = [{ issuer: "https://a.test", cluster: "a", kubernetes }];
    const configuration = configurationOf({ ISSUERS, [credential]: watchedToken });
    return inspectClusters(configuration, { withCrls: true }, {});
  }

  type Content = Parameters<typeof rootConfigMap>[2];
  const put = (name: string, namespace: string, content: Content) =>
    api.put(rootConfigMap(name, namespace, content, ca.now()) as Parameters<WatchedApi["put"]>[0]);

  test.each([
    ["nothing where every namespace has the current bundle", [true, true], []],
    ["bundle-missing where a namespace has none", [true], ["bundle-missing"]],
    ["bundle-stale where a namespace has another one", [true, false], ["bundle-stale"]],
    ["bundle-stale once after a rotation that nobody delivered", [false, false], ["bundle-stale"]],
  ])("is %s", async (_, areCurrent, names) => {
    const { trustBundle } = await ca.certificateAuthority.issuance.authorities.at(ca.now());
    const current = { pem: trustBundle.pem, sequence: 2 };
    for (const [i, isCurrent] of areCurrent.entries()) {
      const bundle = isCurrent ? current : { pem: "another\n", sequence: 1 };
      put("istio-ca-root-cert", ["shop", "web"][i] ?? "", bundle);
    }
    const reports = (await inspected()).map((each) => reportDelivery(each, current));
    expect(namesOf(clusterFindings(reports))).toEqual(names);
  });

  const lifetimeSeconds = 86_400;

  async function deliverCrls(...namespaces: readonly string[]): Promise<void> {
    const response = await ca.app.request("/crl.pem");
    const content = { pem: await response.text(), sequence: 1 };
    expect(response.status).toBe(200);
    for (const namespace of namespaces) put("istio-ca-crl", namespace, content);
  }

  async function foundLater(passed: number, latestRevocation?: Date, isDelivered = false) {
    const delivering = new Set(isDelivered ? ["https://a.test"] : []);
    const knowledge = { lifetimeSeconds, latestRevocation, delivering };
    const inspections = await inspected(isDelivered);
    return namesOf(crlInspectionFindings(inspections, knowledge, seconds(ca.now(), passed)));
  }

  test("is no finding where CRLs are young, nor where nobody keeps CRLs", async () => {
    expect(await foundLater(0)).toEqual([]);
    await deliverCrls("shop", "web");
    expect(await foundLater(0, seconds(ca.now(), -1))).toEqual([]);
  });

  test.each([
    ["crl-stale", 18 * 3600],
    ["crl-ended", 24 * 3600],
  ])("is %s when CRLs are %i seconds old", async (name, passed) => {
    await deliverCrls("shop", "web");
    expect(await foundLater(passed)).toEqual([name]);
  });

  test("is crl-stale when the CRLs are older than the last revocation", async () => {
    const view = await ca.certificateAuthority.issuance.authorities.at(ca.now());
    const authority = view.crlIssuers[0]?.authority.id ?? "";
    const revoked = (hours: number, of: string) => ({
      authority: of,
      certificates: new Map([["01", 0]]),
      revokedAt: seconds(ca.now(), hours * 3600),
      knownFrom: ca.now(),
      reason: "unspecified" as const,
    });
    // What the configuration states counts, too, and what has left the bundle does not.
    const stated = { ...view, revocations: [revoked(1, authority), revoked(3, "gone")] };
    const configuration = {
      ...configurationOf({ ISSUERS: [{ issuer: "https://a.test" }] }),
      configuredRevocations: [revoked(2, authority)],
    };
    expect(knowledgeOf(configuration, { lifetimeSeconds }, stated)).toMatchObject({
      latestRevocation: seconds(ca.now(), 7200),
    });
    await deliverCrls("shop", "web");
    expect(await foundLater(60, seconds(ca.now(), 30))).toEqual(["crl-stale"]);
  });

  test("is crl-missing where one namespace has CRLs and the other has none that can be read", async () => {
    await deliverCrls("shop");
    put("istio-ca-crl", "web", { pem: "-----BEGIN X509 CRL-----\n", sequence: 1 });
    expect(await foundLater(0)).toEqual(["crl-missing"]);
  });

  test("is crl-missing where the CA should keep CRLs and no namespace has one", async () => {
    expect(await foundLater(0, undefined, true)).toEqual(["crl-missing"]);
  });

  test("is away where the API server refuses to list CRLs", async () => {
    api.instead = ({ url }, response) =>
      (url ?? "").includes("istio-ca-crl") && Boolean(response.writeHead(403).end("{}"));
    expect(await foundLater(0)).toEqual(["cluster-away"]);
    for (const { roots } of await inspected()) expect(roots).not.toBeTypeOf("string");
  });
});
