import { describe, expect, test } from "vitest";
import { parseServiceAccountClaims } from "../../src/authn/internal/service-account-claims.ts";
import { leewaySeconds } from "../../src/pki/jose/registered-claims.ts";
import { type Claims, serviceAccountClaims } from "../testkit/callers/tokens.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-11-21T12:00:00Z");
const nowSeconds = now.getTime() / 1000;
const audiences = ["istio-ca", "rampart"];

const claimsOf = (changes: Claims, account = "foo:bar"): Claims =>
  JSON.parse(
    JSON.stringify({ ...serviceAccountClaims("https://a.test", account, now), ...changes }),
  );
const parse = (changes: Claims) => parseServiceAccountClaims(claimsOf(changes), audiences, now);
const refusalFor = (changes: Claims) => refusalOf(() => parse(changes));
const rejected = (check: string): unknown => ({ reason: "credential-rejected", check });
const subject = (sub: unknown): Claims => ({ sub, "kubernetes.io": undefined });

describe("the audience", () => {
  test.each<[string, unknown]>([
    ["one in a list", ["istio-ca"]],
    ["text, which istiod refuses", "istio-ca"],
    ["one of several", ["other", "rampart"]],
  ])("may be %s", (_, aud) => {
    expect(parse({ aud }).account).toEqual({ namespace: "foo", name: "bar" });
  });

  test.each<[string, unknown, string]>([
    ["another", ["other"], "audience"],
    ["nobody: an empty list", [], "audience"],
    ["part of ours", ["istio-c"], "audience"],
    ["ours in upper case", ["ISTIO-CA"], "audience"],
    ["ours among others in one text", "istio-ca other", "audience"],
    ["missing", undefined, "form"],
    ["a number", 1, "form"],
    ["an object", { "istio-ca": true }, "form"],
    ["a list in a list", [["istio-ca"]], "form"],
    ["a list with a number in it", ["istio-ca", 1], "form"],
    ["a list without end", Array.from({ length: 65 }, () => "istio-ca"), "form"],
  ])("is refused when it is %s", async (_, aud, check) => {
    expect(await refusalFor({ aud })).toEqual(rejected(check));
  });
});

describe("the time", () => {
  test.each<[string, Claims]>([
    ["it expires in a moment", { exp: nowSeconds + 0.001 }],
    ["it says nothing of its beginning", { nbf: undefined, iat: undefined }],
    ["it begins within the leeway", { nbf: nowSeconds + leewaySeconds }],
    ["it was issued within the leeway", { iat: nowSeconds + leewaySeconds }],
    ["it has a fraction of a second", { iat: nowSeconds - 0.5 }],
    ["it was issued in 1970", { iat: 0, nbf: 0 }],
    ["it expires in the year 9999", { exp: 253402300799 }],
  ])("is right when %s", (_, times) => {
    expect(parse(times).account.name).toBe("bar");
  });

  test.each<[string, Claims, string]>([
    ["it has just expired", { exp: nowSeconds }, "time"],
    ["it expired a second ago: exp has no leeway", { exp: nowSeconds - 1 }, "time"],
    ["it begins beyond the leeway", { nbf: nowSeconds + leewaySeconds + 1 }, "time"],
    ["it was issued beyond the leeway", { iat: nowSeconds + leewaySeconds + 1 }, "time"],
    ["its times are milliseconds", { iat: nowSeconds * 100 }, "time"],
    ["it has no exp", { exp: undefined }, "form"],
    ["it has an exp of null, which is what JSON makes of NaN", { exp: Number.NaN }, "form"],
    ["it has exp as text", { exp: String(nowSeconds + 60) }, "form"],
    ["it has exp beyond any date", { exp: 1e300 }, "form"],
    ["it has a negative exp", { exp: -1 }, "form"],
    ["it has nbf as text", { nbf: "0" }, "form"],
    ["it has nbf of null", { nbf: null }, "form"],
    ["it has iat of true", { iat: true }, "form"],
  ])("is refused when %s", async (_, times, check) => {
    expect(await refusalFor(times)).toEqual(rejected(check));
  });
});

describe("the subject", () => {
  test.each([
    ["system:serviceaccount:a:b", "a", "b"],
    [`system:serviceaccount:${"n".repeat(63)}:b`, "n".repeat(63), "b"],
    ["system:serviceaccount:a:b.c-d.e", "a", "b.c-d.e"],
    ["system:serviceaccount:0:1", "0", "1"],
  ])("%s is an account", (sub, namespace, name) => {
    expect(parse(subject(sub)).account).toEqual({ namespace, name });
  });

  test.each<[string, unknown, string]>([
    ["is empty", "", "subject"],
    ["has two parts", "foo:bar", "subject"],
    ["has three parts (istiod panics)", "system:serviceaccount:foo", "subject"],
    ["has five parts (istiod ignores the fifth)", "system:serviceaccount:foo:bar:baz", "subject"],
    ["has no namespace", "system:serviceaccount::bar", "subject"],
    ["has no name", "system:serviceaccount:foo:", "subject"],
    ["is a node's", "system:node:foo:bar", "subject"],
    ["has another first part", "System:serviceaccount:foo:bar", "subject"],
    ["is a SPIFFE ID", "spiffe://cluster.local/ns/foo/sa/bar", "subject"],
    ["has an upper-case namespace", "system:serviceaccount:Foo:bar", "subject"],
    ["has an upper-case name", "system:serviceaccount:foo:Bar", "subject"],
    ["has a namespace of 64 characters", `system:serviceaccount:${"n".repeat(64)}:bar`, "subject"],
    ["has a name of 254 characters", `system:serviceaccount:foo:${"n".repeat(254)}`, "subject"],
    ["has a dot in its namespace", "system:serviceaccount:foo.x:bar", "subject"],
    ["has a slash in its name", "system:serviceaccount:foo:bar/../baz", "subject"],
    ["has a percent sign in its name", "system:serviceaccount:foo:b%61r", "subject"],
    ["has a space around it", " system:serviceaccount:foo:bar", "subject"],
    ["has a newline at its end", "system:serviceaccount:foo:bar\n", "subject"],
    ["has a NUL in it", "system:serviceaccount:foo:b\u0000r", "subject"],
    ["has a letter beyond ASCII", "system:serviceaccount:foo:bär", "subject"],
    ["is missing", undefined, "form"],
    ["is null", null, "form"],
    ["is a list", ["system:serviceaccount:foo:bar"], "form"],
    ["is without end", "s".repeat(1025), "form"],
  ])("is refused when it %s", async (_, sub, check) => {
    expect(await refusalFor(subject(sub))).toEqual(rejected(check));
  });
});

describe("the kubernetes.io claims", () => {
  const bound = { namespace: "foo", serviceaccount: { name: "bar", uid: "u1" } };
  const kubernetes = (claims: unknown): Claims => ({ "kubernetes.io": claims });

  test("may name neither pod nor node", () => {
    expect(parse({ ...kubernetes(bound), jti: undefined })).toEqual({
      account: { namespace: "foo", name: "bar" },
    });
  });

  test("may name a node alone, as a token bound to a node does", () => {
    const node = { name: "n", uid: "u" };
    expect(parse(kubernetes({ ...bound, node }))).toMatchObject({ node });
  });

  test("may name a node without its uid, as kube-apiserver does when the Node is not found", () => {
    const pod = { name: "p", uid: "u" };
    expect(parse(kubernetes({ ...bound, pod, node: { name: "n" } }))).toMatchObject({ pod });
  });

  test("may hold more than is read", () => {
    const secret = { name: "s", uid: "u" };
    expect(parse(kubernetes({ ...bound, secret, warnafter: 1 }))).not.toHaveProperty("secret");
  });

  test.each<[string, unknown, string]>([
    ["of another namespace", { ...bound, namespace: "other" }, "subject"],
    ["of another account", { ...bound, serviceaccount: { name: "other", uid: "u1" } }, "subject"],
    ["of no namespace", { ...bound, namespace: "" }, "subject"],
    ["null", null, "form"],
    ["a text", "foo", "form"],
    ["a list", [bound], "form"],
    ["empty", {}, "form"],
    ["without an account", { namespace: "foo" }, "form"],
    ["with an account in a text", { ...bound, serviceaccount: "bar" }, "form"],
    ["with a pod without a uid", { ...bound, pod: { name: "p" } }, "form"],
    ["with a pod of null", { ...bound, pod: null }, "form"],
    ["with a pod of a long name", { ...bound, pod: { name: "p".repeat(1025), uid: "u" } }, "form"],
  ])("are refused when they are %s", async (_, claims, check) => {
    expect(await refusalFor(kubernetes(claims))).toEqual(rejected(check));
  });
});

describe("the id of a token", () => {
  test("is its jti", () => {
    expect(parse({ jti: "an id" }).tokenId).toBe("an id");
  });

  test.each<[string, unknown]>([
    ["missing", undefined],
    ["a number", 7],
    ["without end", "s".repeat(1025)],
  ])("is unknown when the jti is %s", (_, jti) => {
    expect(parse({ jti }).tokenId).toBeUndefined();
  });
});
