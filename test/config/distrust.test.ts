import { expect, test } from "vitest";
import { formatTaintedAuthorities } from "../../src/cli/verbs/authority/store-summary.ts";
import { formatRevoked } from "../../src/cli/verbs/certificate/revoke.ts";
import { formatDenied } from "../../src/cli/verbs/deny.ts";
import { deniableSubject, deniedTable, revokedTable } from "../../src/config/distrust.ts";
import { configurationOf, expectOneFault, faultsOf } from "../testkit/configuration.ts";

const since = "2026-11-21T12:00:00Z";

test.each([
  ["a subject alone", ["ns/shop/sa/*"]],
  ["a list as JSON in a text", '["cluster/a"]'],
  ["a table with an end", [{ subject: "cluster/a", until: since, why: "it was taken" }]],
  ["an instant of TOML", [{ subject: "node/n", since: new Date(since) }]],
  ["nobody", []],
])("DENIED accepts %s", (_, value) => {
  expect(deniedTable.safeParse(value).success).toBe(true);
});

test.each([
  ["an unknown form", ["ns/shop"], "subject must be spiffe:"],
  ["an account with a space", ["ns/shop/sa/a b"], "subject must be"],
  ["a node without a beginning", ["node/n"], "since is required"],
  ["a pod without a beginning", [{ subject: "pod/1" }], "since is required"],
  ["a claim without a beginning", ["claim/ref=a"], "since is required"],
  ["a subject without a beginning", ["subject/a"], "since is required"],
  ["a claim without a value", [{ subject: "claim/ref", since }], "subject must be"],
  ["a token without a beginning", [{ subject: "token/1" }], "since is required"],
  ["an end that is none", [{ subject: "cluster/a", until: "tomorrow" }], "must be an instant"],
  ["an unknown member", [{ subject: "cluster/a", for: "1h" }], "unrecognized_keys"],
  ["a number", [7], "invalid_type"],
  ["no list", "cluster/a", "must be JSON"],
])("DENIED refuses %s", (_, value, message) => {
  const { error } = deniedTable.safeParse(value);
  // The words of zod's own messages depend on what else a process has loaded; its codes do not.
  const said = error?.issues.map((issue) => `${issue.code} ${issue.message}`).join();
  expect(said).toContain(message);
});

test("a denial survives being written and read", () => {
  const subject = 'node/worker-3.example"';
  expect(formatDenied({ subject: "cluster/a", knownFrom: new Date(since), why: 'a "why"' })).toBe(
    '{ subject = "cluster/a", why = "a \\"why\\"" }',
  );
  expect(formatDenied({ subject, knownFrom: new Date(since) })).not.toContain("since");
});

const until = "2026-11-22T12:00:00Z";
const authority = "ab".repeat(20);
const entry = { authority, serials: ["01ab", "00f1"], since, until };

test("REVOKED reads a list, and the same as JSON in a text", () => {
  const expected = [
    {
      authority,
      revokedAt: new Date(since),
      knownFrom: new Date(since),
      reason: "unspecified",
      certificates: new Map([
        ["01ab", Date.parse(until) / 1000],
        ["00f1", Date.parse(until) / 1000],
      ]),
    },
  ];
  expect(revokedTable.parse([entry])).toEqual(expected);
  expect(revokedTable.parse(JSON.stringify([entry]))).toEqual(expected);
  expect(revokedTable.parse([{ ...entry, since: new Date(since) }])).toEqual(expected);
  const amid = revokedTable.parse([{ ...entry, until: until.replace("Z", ".250Z") }]);
  expect(amid[0]?.certificates.get("01ab")).toBe(Date.parse(until) / 1000 + 1);
});

test.each([
  ["01AB", "01ab"],
  ["01:ab", "01ab"],
  ["0001", "01"],
  ["f1", "00f1"],
  ["675629437177875175242729535292881809406", "01fc497f167f641df5f17ca6862e3caffe"],
])("REVOKED takes the serial number %s for the content octets %s", (text, content) => {
  const [revocation] = revokedTable.parse([{ ...entry, serials: [text] }]);
  expect([...(revocation?.certificates.keys() ?? [])]).toEqual([content]);
});

test.each<[string, unknown, string]>([
  ["no authority", [{ ...entry, authority: undefined }], "invalid_type"],
  ["the beginning of an id", [{ ...entry, authority: "ab".repeat(8) }], "must be the id"],
  ["no serial number", [{ ...entry, serials: [] }], "too_small"],
  ["101 serial numbers", [{ ...entry, serials: Array(101).fill("01") }], "too_big"],
  ["the serial number 0", [{ ...entry, serials: ["00"] }], "must be a serial number"],
  ["a word for a serial number", [{ ...entry, serials: ["all"] }], "must be a serial number"],
  ["a serial number of 21 octets", [{ ...entry, serials: ["ab".repeat(21)] }], "must be a serial"],
  ["no beginning", [{ ...entry, since: undefined }], "invalid_type"],
  ["an end that is no instant", [{ ...entry, until: "tomorrow" }], "must be an instant"],
  ["a hold", [{ ...entry, reason: "certificateHold" }], "invalid_value"],
  ["an unknown member", [{ ...entry, serial: "01" }], "unrecognized_keys"],
  ["no list", "01ab", "must be JSON"],
])("REVOKED refuses %s", (_, value, message) => {
  const { error } = revokedTable.safeParse(value);
  const said = error?.issues.map((issue) => `${issue.code} ${issue.message}`).join();
  expect(said).toContain(message);
});

test("a revocation survives being written and read", () => {
  const [content] = revokedTable.parse([{ ...entry, reason: "keyCompromise", why: 'case "117"' }]);
  if (!content) throw new Error("no revocation");
  expect(formatRevoked(content)).toBe(
    `{ authority = "${authority}", serials = ["01ab", "f1"], since = "${since}", until = "${until}", reason = "keyCompromise", why = "case \\"117\\"" }`,
  );
  expect(revokedTable.parse([{ ...entry, serials: ["01ab", "f1"] }])).toEqual(
    revokedTable.parse([entry]),
  );
});

const id = "79d5a07c3b12ee0179d5a07c3b12ee0179d5a07c";
const instant = new Date("2027-01-31T12:00:00Z");

const parsed = (value: unknown) => configurationOf({ TAINTED_AUTHORITIES: value }).configuredTaints;

test.each<[string, unknown, Date | undefined]>([
  ["an id", [id], undefined],
  ["a table of an id", [{ id }], undefined],
  ["a table with the end of the root", [{ id, root_until: "2027-01-31T12:00:00Z" }], instant],
  ["an instant of another zone", [{ id, root_until: "2027-01-31T13:00:00+01:00" }], instant],
  ["an instant of TOML's own", [{ id, root_until: instant }], instant],
  ["JSON in a text", JSON.stringify([{ id, root_until: instant }]), instant],
])("TAINTED_AUTHORITIES may hold %s", (_, value, rootUntil) => {
  expect(parsed(value)).toEqual([{ idPrefix: id, rootUntil }]);
});

test("TAINTED_AUTHORITIES may be empty, name a root, and name an id by 16 digits", () => {
  expect(parsed([])).toEqual([]);
  expect(parsed([id.slice(0, 16), "ab".repeat(32)])).toHaveLength(2);
});

test.each<[string, unknown, string]>([
  ["15 digits, which may be the beginning of two ids", [id.slice(0, 15)], "[0].id"],
  ["more than any id has", ["a".repeat(65)], "[0].id"],
  ["upper case, which no id has", [id.toUpperCase()], "[0].id"],
  ["a number", [{ id: 79 }], "[0].id"],
  ["no day", [id, { id, root_until: "soon" }], "[1].root_until"],
  ["a day without a time", [{ id, root_until: "2027-01-31" }], "[0].root_until"],
  ["a day that no month has", [{ id, root_until: "2027-02-30T12:00:00Z" }], "[0].root_until"],
  ["a key that nobody knows", [{ id, root: "immediately" }], "[0].root"],
  ["more taints than an operator makes", Array.from({ length: 101 }, () => id), ""],
])("TAINTED_AUTHORITIES may not hold %s", (_, value, place) => {
  expectOneFault({ TAINTED_AUTHORITIES: value }, `TAINTED_AUTHORITIES${place}`);
});

test("TAINTED_AUTHORITIES may not be an id without a list", () => {
  expect(faultsOf({ TAINTED_AUTHORITIES: id })).toEqual([
    "TAINTED_AUTHORITIES: must be JSON, with no name twice in one object",
  ]);
});

test("the line that states taints is read back as they are", () => {
  const taints = [
    { idPrefix: id, rootUntil: instant },
    { idPrefix: id.slice(0, 16), rootUntil: undefined },
  ];
  const line = formatTaintedAuthorities(taints);
  expect(line).toBe(
    `TAINTED_AUTHORITIES = [{ id = "${id}", root_until = "2027-01-31T12:00:00Z" }, "${id.slice(0, 16)}"]`,
  );
});

const tables = [
  {
    issuer: "https://a.test",
    cluster: "alpha",
    cluster_aliases: ["Kubernetes", "former", "old"],
    namespaces: ["edge"],
  },
  { issuer: "https://b.test", cluster_aliases: ["old"], namespaces: ["shop"] },
];
const uid = "0A000000-0000-4000-8000-00000000000b";

test.each([
  ["a cluster's name", "cluster/alpha", "cluster/alpha"],
  ["an alias, as the cluster's name", "cluster/former", "cluster/alpha"],
  ["a cluster's name before another's alias", "cluster/Kubernetes", "cluster/Kubernetes"],
  ["a pod's UID in capitals", `pod/${uid}`, `pod/${uid.toLowerCase()}`],
  ["a static pod's UID", `pod/${"0b".repeat(16)}`, `pod/${"0b".repeat(16)}`],
  ["a token as the audit log names it", "token/JTI=a", "token/a"],
  ["a token of that name", "token/JTI=", "token/JTI="],
  ["accounts", "ns/shop/sa/*", "ns/shop/sa/*"],
])("DENIED denies %s, as `deny add` does", (_, subject, compared) => {
  const configuration = configurationOf({ ISSUERS: tables, DENIED: [{ subject, since, until }] });
  expect(deniableSubject(subject, configuration)).toEqual({ subject: compared });
  const [denial] = configuration.configuredDenials;
  const times = { knownFrom: new Date(since), until: new Date(until) };
  expect(denial).toMatchObject({ subject: compared, ...times });
  const known = {
    accounts: [{ namespace: "shop", name: "a" }],
    issuers: [{ cluster: compared.replace("cluster/", ""), name: "https://a.test" }],
    bound: [
      { pod: { uid: compared.replace("pod/", "") }, tokenId: compared.replace("token/", "") },
    ],
  };
  expect(denial?.concerns(known)).toBe(true);
});

test.each([
  ["cluster/Alpha", "the cluster Alpha: there are cluster/alpha, cluster/Kubernetes"],
  ["cluster/old", "the cluster old: there are cluster/alpha, cluster/Kubernetes"],
  ["issuer/https://c.test", "the URL https://c.test: there are issuer/https://a.test, "],
])("DENIED refuses what denies nobody, or not surely: %s", (subject, fault) => {
  const denying = { ISSUERS: tables, DENIED: ["ns/shop/sa/*", subject] };
  expect(faultsOf(denying)).toEqual([
    expect.stringContaining(`DENIED: no issuer of ISSUERS has ${fault}`),
  ]);
});

test("DENIED refuses a namespace for which no issuer vouches, and the name of a pod", () => {
  const DENIED = ["ns/bank/sa/*", { subject: "pod/cart-0", since }];
  expect(faultsOf({ ISSUERS: tables.slice(1), DENIED })).toEqual([
    "DENIED: no issuer of ISSUERS has the namespace bank: there are ns/shop",
    expect.stringContaining("DENIED: pod/cart-0 has no UID"),
  ]);
});

test("DENIED refuses an identity of another trust domain, which would deny the own account of that name", () => {
  const values = (domain: string) => ({
    TRUST_DOMAIN: "mesh.test",
    ISSUERS: [{ issuer: "https://a.test" }],
    DENIED: [`spiffe://${domain}/ns/shop/sa/a`],
  });
  expect(configurationOf(values("mesh.test")).warnings).toEqual([]);
  for (const other of ["other.test", "mess.test"])
    expect(() => configurationOf(values(other))).toThrow(
      `DENIED: spiffe://${other}/ns/shop/sa/a is not of this trust domain, mesh.test`,
    );
});

test("a claim is denied by a name that an issuer records", () => {
  const subjects = [{ name: "a", claims: { ref: "x" }, namespace: "ci", account: "a" }];
  const claiming = { issuer: "https://a.test", audiences: ["https://ca.test"], subjects };
  const ISSUERS = [{ issuer: "https://b.test" }, claiming];
  const deniedIn = (subject: string, values: object) =>
    faultsOf({ ...values, DENIED: [{ subject, since }] });
  const DENIED = ["claim/ref=refs/heads/*", "subject/repo:o/r:*"].map((subject) => ({
    subject,
    since,
  }));
  expect(configurationOf({ ISSUERS, DENIED }).configuredDenials).toHaveLength(2);
  expect(deniedIn("claim/environment=prod", { ISSUERS })).toEqual([
    expect.stringContaining("there are claim/ref=…"),
  ]);
  expect(deniedIn("claim/constructor=a", { ISSUERS })).toHaveLength(1);
  // Nobody's token has a subject of this kind here.
  expect(deniedIn("subject/a", {})).toHaveLength(1);
  const [written = ""] = configurationOf({ ISSUERS, DENIED }).configuredDenials.map(formatDenied);
  expect(written).toContain(`since = "${new Date(since).toISOString()}"`);
});
