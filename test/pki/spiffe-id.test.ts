import fc from "fast-check";
import { expect, test } from "vitest";
import { ServiceAccount, SpiffeId, TrustDomain } from "../../src/pki/spiffe-id.ts";
import { clusterLocal, trustDomain } from "../testkit/pki/certificates.ts";
import { readVectors } from "../testkit/pki/vectors.ts";

/** `{63a}` stands for 63 letters. */
const filled = (text = ""): string =>
  text.replace(/\{(\d+)a\}/g, (_, count) => "a".repeat(Number(count)));

interface IdVector {
  readonly name?: string;
  readonly id: string;
  readonly trustDomain?: string;
  readonly namespace?: string;
  readonly account?: string;
}

const ids = readVectors<IdVector>("spiffe-id").map((row) => ({ ...row, name: row.name ?? row.id }));

test.each(ids.filter((row) => row.trustDomain))("reads $name", (row) => {
  const account = { namespace: filled(row.namespace), name: filled(row.account) };
  const domain = filled(row.trustDomain);
  expect(SpiffeId.parseWorkload(filled(row.id))).toEqual({ trustDomain: domain, account });
  expect(SpiffeId.ofWorkload(trustDomain(domain), account)).toBe(filled(row.id));
});

test.each(ids.filter((row) => !row.trustDomain))("refuses $name", ({ id }) => {
  expect(SpiffeId.parseWorkload(filled(id))).toBeUndefined();
});

interface PathVector {
  readonly name?: string;
  readonly id: string;
  readonly isWorkload: boolean;
}

const paths = readVectors<PathVector>("spiffe-path").map((row) => ({
  ...row,
  name: row.name ?? row.id,
}));

test.each(paths.filter((row) => row.isWorkload))("$name is a workload's SPIFFE ID", ({ id }) => {
  expect(SpiffeId.isWorkload(filled(id))).toBe(true);
});

test.each(paths.filter((row) => !row.isWorkload))("$name is no workload's SPIFFE ID", ({ id }) => {
  expect(SpiffeId.isWorkload(filled(id))).toBe(false);
});

const labels = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);

test("reads back any SPIFFE ID that it made, and refuses it with a character more", () => {
  const domains = fc.stringMatching(/^[a-z0-9._-]{1,255}$/);
  const characters = fc.constantFrom("/", "%", ",", "A", ":", "?", "#", " ", "é", "@", "\n");
  fc.assert(
    fc.property(domains, labels, labels, characters, fc.nat(), (domain, namespace, name, c, n) => {
      const account = { namespace, name };
      const id: string = SpiffeId.ofWorkload(trustDomain(domain), account);
      expect(SpiffeId.parseWorkload(id)).toEqual({ trustDomain: domain, account });
      const at = n % (id.length + 1);
      expect(SpiffeId.parseWorkload(id.slice(0, at) + c + id.slice(at))).toBeUndefined();
    }),
    { numRuns: 500 },
  );
});

test("writes every SPIFFE ID that it reads in the same form, and takes it for a workload's", () => {
  const pieces = fc.constantFrom(
    "spiffe://",
    "td",
    "/ns/",
    "foo",
    "/sa/",
    "bar",
    "/",
    ".",
    "..",
    "",
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 8 }), (parts) => {
      const text = parts.join("");
      const parsed = SpiffeId.parseWorkload(text);
      if (!parsed) return;
      expect(SpiffeId.ofWorkload(parsed.trustDomain, parsed.account)).toBe(text);
      expect(SpiffeId.isWorkload(text)).toBe(true);
    }),
    { numRuns: 500 },
  );
});

test.each(["cluster.local", "prod", "a", "a_b", "1.2.3.4", "-", "a".repeat(255)])(
  "accepts the trust domain %s",
  (name) => {
    expect(TrustDomain.parse(name)).toBe(name);
  },
);

test.each([
  "",
  "Prod",
  "a b",
  "a/b",
  "a:1",
  "a,b",
  "a%62",
  "é",
  "a\n",
  "spiffe://a",
  "a".repeat(256),
])("refuses the trust domain %j", (name) => {
  expect(TrustDomain.parse(name)).toBeUndefined();
});

test.each([
  ["", "default"],
  ["foo", ""],
  ["foo/sa/bar", "baz"],
  ["foo", "bar/baz"],
  ["foo", "bar:baz"],
  ["foo\n", "bar"],
  ["FOO", "bar"],
  ["a".repeat(64), "bar"],
  ["foo", "a".repeat(254)],
  ["foo.bar", "baz"],
])("refuses the service account %j, %j", (namespace, name) => {
  expect(ServiceAccount.parse(namespace, name)).toBeUndefined();
});

test("a trust domain's own SPIFFE ID has no path", () => {
  expect(SpiffeId.ofTrustDomain(clusterLocal)).toBe("spiffe://cluster.local");
});
