import { X509Certificate } from "node:crypto";
import { describe, expect, test } from "vitest";
import { LogEntry } from "../../../../src/ca/issuance/log-entry.ts";
import { anomaliesIn, type Watch } from "../../../../src/cli/verbs/log/anomalies.ts";
import { FollowerIndex } from "../../../../src/cli/verbs/log/follower-index.ts";
import type { OpenAuthority } from "../../../../src/pki/authority/signing-authority.ts";
import { Leaf } from "../../../../src/pki/x509/leaf/certificate-signer.ts";
import { SubjectPublicKey } from "../../../../src/pki/x509/subject-public-key.ts";
import { issuersOf } from "../../../testkit/configuration.ts";
import { tokenEntry } from "../../../testkit/log/token-entry.ts";
import { createTestIssuer, oneDay, proved, workload } from "../../../testkit/pki/certificates.ts";
import { generateSigner } from "../../../testkit/pki/csr.ts";

const issuer = "https://a.test";
const watch: Watch = {
  authorities: undefined,
  issuers: issuersOf({ issuer, namespaces: ["team-*"] }),
  identitiesPerNode: 3,
  othersPerNode: 1,
  staleAfterSeconds: 3600,
};
const start = Date.parse("2026-11-20T00:00:00Z");
const minute = 60_000;

const publicKey = SubjectPublicKey.parse(generateSigner("EC-P256").spki);
const certified = async (signer: OpenAuthority, dnsNames?: readonly string[]) => {
  const spiffeId = workload("team-a", "b");
  const request = { spiffeId, dnsNames, publicKey, validity: oneDay, proof: proved };
  const leaf = (await Leaf.issue(signer, request)).der;
  return { leaf, authority: signer.authority.certificate.der };
};
const ownIssuer = await createTestIssuer();
const own = await certified(ownIssuer);
/** By a thief of everything but the key. */
const forged = await certified({
  ...ownIssuer,
  signingKey: (await createTestIssuer()).signingKey,
});
const signer = await createTestIssuer();
const named = await certified(signer, ["b.team-a.test"]);
const other = await certified(await createTestIssuer());

interface Made {
  readonly minutes?: number;
  readonly account?: string;
  readonly serial?: string;
  readonly impersonator?: string;
  readonly node?: string;
  readonly cluster?: string;
  readonly proof?: "token" | "certificate" | "own";
  readonly leaf?: typeof own.leaf;
  readonly isToken?: boolean;
  readonly rule?: string;
}

/** A log that begins with its authorities. */
function indexOf(made: readonly Made[], authorities = [own.authority]): FollowerIndex {
  const index = new FollowerIndex();
  for (const [idx, certificate] of authorities.entries()) {
    const at = new Date(start).toISOString();
    const octets = LogEntry.format({ kind: "certificate", certificate, at, proof: "authority" });
    const fields = { at, spiffeId: "", serial: `ca${idx}`, notAfter: at, isAuthority: true };
    index.addEntry(idx, octets, fields);
    index.addAuthority(idx, certificate);
  }
  for (const [i, each] of made.entries()) {
    const { minutes = i, account = "team-a/sa/b", serial = `a${i}`, impersonator, node } = each;
    const { leaf: certificate = own.leaf, proof = "token", cluster = "c" } = each;
    const at = new Date(start + minute * minutes).toISOString();
    const vouched = proof === "own" ? {} : { issuer };
    const spiffeId = `spiffe://cluster.local/ns/${account}`;
    const how = { at, proof, ...vouched, impersonator, rule: each.rule };
    const octets = LogEntry.format(
      each.isToken ? tokenEntry(how, { spiffeId }) : { kind: "certificate", certificate, ...how },
    );
    const fields = { at, spiffeId, serial, notAfter: at, cluster, node, impersonator };
    index.addEntry(authorities.length + i, octets, { ...fields, isAuthority: false });
  }
  return index;
}

const newestOf = (index: FollowerIndex): Date => index.newest() ?? new Date(start);

const anomalies = (index: FollowerIndex, from: number, changes: Partial<Watch> = {}) => [
  ...anomaliesIn(index, from, { ...watch, ...changes }, newestOf(index)),
];

const found = (made: readonly Made[], from = 1, changes: Partial<Watch> = {}): string[] =>
  anomalies(indexOf(made), from, changes).map(({ finding }) => finding);

const many = (count: number, make: (i: number) => Made): Made[] =>
  Array.from({ length: count }, (_, i) => make(i));

describe("a watcher", () => {
  test("finds nothing in an honest log", () => {
    expect(found(many(100, () => ({})))).toEqual([]);
    expect(found([])).toEqual([]);
    expect([...anomaliesIn(new FollowerIndex(), 0, watch, new Date())]).toEqual([]);
  });

  test("finds a leaf that no authority of the log has signed", () => {
    expect(found([{}, { leaf: other.leaf }, {}])).toEqual(["unknown-authority"]);
    expect(found([{}, { leaf: forged.leaf }])).toEqual(["unknown-authority"]);
    const index = indexOf([{}, { leaf: other.leaf }], [own.authority, other.authority]);
    expect(anomalies(index, 2)).toEqual([]);
  });

  test("finds DNS names of a workload that no rule has given", () => {
    const made = [{ leaf: named.leaf }, { leaf: named.leaf, rule: "edge" }];
    const index = indexOf(made, [named.authority]);
    expect(anomalies(index, 1)).toEqual([
      expect.objectContaining({ finding: "dns-names-without-rule", index: 1 }),
    ]);
  });

  test("judges the subject of a token, which no authority signs", () => {
    expect(found([{ isToken: true }])).toEqual([]);
    const account = "kube-system/sa/b";
    expect(found([{ isToken: true, account }])).toEqual(["identity-outside-issuer"]);
  });

  test("finds a leaf of an authority that the operator does not know, whatever the log has", () => {
    const authorities = [new X509Certificate(other.authority)];
    expect(found([{}], 1, { authorities })).toEqual(["unknown-authority"]);
    expect(found([{ leaf: other.leaf }], 1, { authorities })).toEqual([]);
  });

  test("finds each authority once when it appears, and none that the operator knows", () => {
    const index = indexOf([{}], [own.authority, other.authority]);
    const found = anomalies(index, 0);
    expect(found.map(({ finding, index }) => [finding, index])).toEqual([
      ["authority-appeared", 0],
      ["authority-appeared", 1],
    ]);
    const { fingerprint256 } = new X509Certificate(other.authority);
    expect(found[1]?.detail).toContain(fingerprint256.replaceAll(":", "").toLowerCase());
    const authorities = [own, other].map(({ authority }) => new X509Certificate(authority));
    expect(anomalies(index, 0, { authorities })).toEqual([]);
    index.addAuthority(3, other.authority);
    expect(anomalies(index, 2)).toEqual([]);
  });

  test("finds an identity that its issuer may not vouch for, once", () => {
    const made = [{}, { account: "kube-system/sa/b" }, {}];
    expect(found(made)).toEqual(["identity-outside-issuer"]);
    expect(found(made, 3)).toEqual([]);
    expect(found(made, 1, { issuers: undefined })).toEqual([]);
    // The table of another issuer says nothing, and nor does none about a name of a host.
    const strange = { issuer: "https://b.test", namespaces: ["team-*"] };
    const issuers = issuersOf(strange, { issuer, namespaces: ["other"] });
    expect(found([{}], 1, { issuers })).toEqual(["identity-outside-issuer"]);
    const serving = [{ account: "no-workload" }];
    expect(found(serving)).toEqual([]);
    expect(found(serving, 1, { issuers: issuersOf(strange) })).toEqual(["identity-outside-issuer"]);
  });

  test("judges what a certificate renewed by the issuer behind it, and not what the CA issued itself", () => {
    const account = "kube-system/sa/b";
    expect(found([{ account, proof: "certificate" }])).toEqual(["identity-outside-issuer"]);
    expect(found([{ account: "team-b/sa/c", proof: "certificate" }])).toEqual([]);
    expect(found([{ account, proof: "own" }])).toEqual([]);
  });

  test("finds two certificates with one serial number, and not one that is logged twice", () => {
    expect(found([{ serial: "7" }, { serial: "7" }])).toEqual([]);
    expect(found([{ serial: "7" }, { serial: "7", account: "team-b/sa/c" }])).toEqual([
      "serial-twice",
    ]);
  });

  test("finds a node whose proxies ask for many identities", () => {
    const asking = (count: number) =>
      many(count, (i) => ({ account: `team-a/sa/w${i}`, impersonator: "ztunnel", node: "n1" }));
    expect(found(asking(3))).toEqual([]);
    expect(found(asking(4))).toEqual(["node-asks-for-many"]);
    const half = (change: Made) =>
      asking(4).map((each, i) => ({ minutes: i, ...each, ...(i > 1 && change) }));
    // Other nodes have the same identities, and another cluster a node of the same name.
    for (const change of [{ node: "n2" }, { cluster: "d" }, { minutes: 25 * 60 }]) {
      expect(found(half(change))).toEqual([]);
    }
  });

  test("does not mind the same identity often, nor sidecars of many identities on a node", () => {
    const again = many(9, () => ({ impersonator: "ztunnel", node: "n1" }));
    expect(found(again)).toEqual([]);
    expect(found(many(9, (i) => ({ account: `team-a/sa/w${i}`, node: "n1" })))).toEqual([]);
  });

  const hour = 60;

  /** An identity on a node `n1` so many hours after its clusters are known for a day, such as `n1 at 5`. */
  function at(name: string, place: string, more: Made): Made {
    const [node = "", hours = ""] = place.split(" at ");
    const minutes = (25 + Number(hours)) * hour;
    return { account: `team-a/sa/${name}`, minutes, node, serial: `${name} of ${place}`, ...more };
  }
  type Move = (name: string) => Made;
  const proxied =
    (place: string, cluster = "c"): Move =>
    (name) =>
      at(name, place, { impersonator: "ztunnel", cluster });
  const sidecar =
    (place: string): Move =>
    (name) =>
      at(name, place, {});

  /** Two identities that move so, in clusters that are known for a day. */
  const both = (...moves: readonly Move[]): Made[] => [
    ...["c", "d"].map((cluster) => ({ minutes: 0, cluster, serial: cluster })),
    ...["one", "two"]
      .flatMap((name) => moves.map((move) => move(name)))
      .toSorted((a, b) => (a.minutes ?? 0) - (b.minutes ?? 0)),
  ];

  const [there, left, back] = [proxied("n1 at 0"), proxied("n2 at 5"), proxied("n1 at 12")];

  test.each<[string, readonly Move[]]>([
    ["whose proxies place them elsewhere", [there, left, back]],
    ["whose pods' tokens place them elsewhere", [sidecar("n1 at 0"), left, sidecar("n1 at 12")]],
    ["that it goes on to ask for", [there, left, back, proxied("n2 at 17")]],
  ])("finds a node whose proxies ask for the workloads of other nodes, %s", (_, moves) => {
    const [finding, ...others] = anomalies(indexOf(both(...moves)), 1);
    expect(others).toEqual([]);
    expect(finding?.finding).toBe("node-asks-for-others");
    expect(finding?.detail).toMatch(
      /^the proxies of node n2 of c asked for 2 identities that ran on one other node each, and still do: spiffe:\/\/cluster\.local\/ns\/team-a\/sa\/one of n1, /,
    );
  });

  const early = ["n1 at -25", "n2 at -20", "n1 at -13"].map((place) => proxied(place));
  const [before, after] = [sidecar("n1 at 0"), sidecar("n1 at 12")];
  const elsewhere = ["n1 at 0", "n1 at 12"].map((place) => proxied(place, "d"));

  test.each<[string, readonly Move[]]>([
    ["of pods that moved", [there, left, proxied("n2 at 17")]],
    ["of accounts that run on many nodes", [before, sidecar("n3 at 1"), left, after]],
    ["on the first day of its cluster", early],
    ["of pods that have their own tokens there", [before, sidecar("n2 at 5"), after]],
    ["whose pod's token came from there before", [before, sidecar("n2 at 4"), left, after]],
    ["of the same name in another cluster", [left, ...elsewhere]],
    ["that are nowhere else", [left, proxied("n2 at 17")]],
    ["that appeared there more than a day ago", [there, left, proxied("n1 at 30")]],
  ])("does not mind a node whose proxies ask for workloads %s", (_, moves) => {
    expect(found(both(...moves))).toEqual([]);
  });

  test("does not mind a node whose proxies ask for one workload of another", () => {
    const made = both(there, left, back).filter(({ serial }) => serial !== "two of n1 at 12");
    expect(found(made)).toEqual([]);
  });

  const burst = (from: number, count: number) =>
    many(count, (i) => ({ minutes: from + i / 10, serial: `b${i}` }));

  test("finds a jump of the rate, and no jump in a steady log", () => {
    const steady = many(26 * 12, (i) => ({ minutes: 5 * i }));
    expect(found(steady)).toEqual([]);
    expect(found([...steady, ...burst(26 * 60, 250)])).toEqual(["rate-jump"]);
    expect(found([...steady, ...burst(26 * 60, 100)])).toEqual([]);
  });

  test("finds a jump after a silent day, and none in a log that has no day to compare", () => {
    expect(found([{}, ...burst(48 * 60, 250)])).toEqual(["rate-jump"]);
    expect(found([{}, ...burst(0, 250)])).toEqual([]);
    const busy = many(2 * 240, (i) => ({ minutes: i / 4 }));
    expect(found(busy)).toEqual([]);
  });

  test("finds a checkpoint without news, with new entries and without", () => {
    const index = indexOf([{}]);
    const later = (seconds: number) => new Date(newestOf(index).getTime() + 1000 * seconds);
    const at = (seconds: number, from: number) =>
      [...anomaliesIn(index, from, watch, later(seconds))].map(({ finding }) => finding);
    expect(at(3600, 1)).toEqual([]);
    expect(at(3600, 2)).toEqual([]);
    expect(at(3601, 1)).toEqual(["stale-checkpoint"]);
    expect(at(3601, 2)).toEqual(["stale-checkpoint"]);
  });
});
