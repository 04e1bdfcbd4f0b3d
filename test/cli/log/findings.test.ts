import { describe, expect, test } from "vitest";
import { formatEntry } from "../../../src/ca/issuance/log-entry.ts";
import { findingsIn, type Watch } from "../../../src/cli/log/findings.ts";
import { FollowerIndex } from "../../../src/cli/log/follower-index.ts";
import { canonicalSerial } from "../../../src/cli/log/logged-certificate.ts";
import { issuersOf } from "../../testkit/configuration.ts";

const issuer = "https://a.test";
const watch: Watch = {
  authorities: undefined,
  issuers: issuersOf({ issuer, namespaces: ["team-*"] }),
  identitiesPerNode: 3,
};
const start = Date.parse("2026-11-20T00:00:00Z");

/** An entry in an index, with the changes of a test. */
interface Made {
  readonly minute?: number;
  readonly account?: string;
  readonly serial?: string;
  readonly impersonator?: string;
  readonly node?: string;
}

function indexOf(made: readonly Made[]): FollowerIndex {
  const index = new FollowerIndex();
  for (const [idx, each] of made.entries()) {
    const { minute = idx, account = "team-a/sa/b", serial = `a${idx}`, impersonator, node } = each;
    const at = new Date(start + 60_000 * minute).toISOString();
    const certificate = new Uint8Array();
    const octets = formatEntry({ certificate, at, proof: "token", issuer, impersonator });
    const spiffeId = `spiffe://cluster.local/ns/${account}`;
    const fields = { at, spiffeId, serial, notAfter: at, cluster: "c", node, impersonator };
    index.addEntry(idx, octets, fields);
  }
  return index;
}

const found = (made: readonly Made[], from = 0): string[] =>
  findingsIn(indexOf(made), from, watch).map(({ finding }) => finding);

const many = (count: number, make: (i: number) => Made): Made[] =>
  Array.from({ length: count }, (_, i) => make(i));

describe("a watcher", () => {
  test("finds nothing in an honest log", () => {
    expect(found(many(100, () => ({})))).toEqual([]);
    expect(found([])).toEqual([]);
  });

  test("finds an identity that its issuer may not vouch for, once", () => {
    const made = [{}, { account: "kube-system/sa/b" }, {}];
    expect(found(made)).toEqual(["identity-outside-issuer"]);
    expect(found(made, 2)).toEqual([]);
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
    expect(found([...asking(2), ...asking(2).map((each) => ({ ...each, node: "n2" }))])).toEqual(
      [],
    );
  });

  test("finds a jump of the rate, and no jump in a steady log", () => {
    const steady = many(24 * 60, (i) => ({ minute: i }));
    expect(found(steady)).toEqual([]);
    const jump = many(400, (i) => ({ minute: 24 * 60 + i / 10, serial: `b${i}` }));
    expect(found([...steady, ...jump])).toEqual(["rate-jump"]);
  });
});

test.each([
  ["0A:0B", "a0b"],
  ["0x0a0b", "a0b"],
  ["a0b", "a0b"],
  ["00", "0"],
])("the serial number %s is %s", (text, canonical) => {
  expect(canonicalSerial(text)).toBe(canonical);
});
