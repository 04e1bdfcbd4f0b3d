import type { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { FederatedBundles, JwtBundles } from "../../../src/agent/trust/bundles.ts";
import type { KeySet } from "../../../src/pki/jose/key-set.ts";
import { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";

const domain = (name: string): TrustDomain => TrustDomain.parse(name) as TrustDomain;
const [own, foreign] = [domain("cluster.local"), domain("foreign.test")];
const keys = (...names: readonly string[]): KeySet =>
  names.map((name) => {
    const [keyId = "", material = keyId] = name.split("=");
    return { keyId, material, algorithms: ["ES256"] };
  }) as unknown as KeySet;

test("a key that one trust domain has withdrawn stays good in another that has one of its name", () => {
  const bundles = new JwtBundles();
  for (const each of [foreign, own]) bundles.update(each, keys("k1", "k2"));
  bundles.update(foreign, keys("k2"));
  expect([foreign, own].map((each) => bundles.isWithdrawn(each, "k1"))).toEqual([true, false]);
});

test("a key that comes back into its bundle is good again", () => {
  const bundles = new JwtBundles();
  for (const each of [keys("k1", "k2"), keys("k2"), keys("k1", "k2")]) bundles.update(own, each);
  expect(bundles.isWithdrawn(own, "k1")).toBe(false);
});

test("a hundred withdrawn keys of each trust domain are remembered, the latest, whoever withdraws more", () => {
  const bundles = new JwtBundles();
  for (const each of [keys("mine"), keys("next")]) bundles.update(own, each);
  const names = (first: number) => Array.from({ length: 100 }, (_, i) => `k${first + i}`);
  for (const first of [0, 100, 200]) bundles.update(foreign, keys(...names(first)));
  const isKept = (name: string) => bundles.isWithdrawn(foreign, name);
  expect([names(0).some(isKept), names(100).every(isKept)]).toEqual([false, true]);
  expect(bundles.isWithdrawn(own, "mine")).toBe(true);
});

test("a key of the same name and other material is another one, of which readers hear", () => {
  const bundles = new JwtBundles();
  let changes = 0;
  bundles.changes.add(() => changes++);
  for (const each of ["k1=a", "k1=a", "k1=b"]) bundles.update(own, keys(each));
  expect(changes).toBe(2);
  expect(bundles.keysOf(own)).toEqual(keys("k1=b"));
});

test("each federated trust domain has a sequence of its own", async () => {
  const federation = new FederatedBundles();
  const { certificate } = await createTestAuthority();
  const bundle = (sequence: number, ...roots: readonly X509Certificate[]) => ({
    ...{ sequence, refreshSeconds: 300, jwtKeys: [], roots },
  });
  const [one, two] = [domain("one.test"), domain("two.test")];
  expect(federation.update(one, bundle(9, certificate))).toBe("taken");
  expect(federation.update(two, bundle(1, certificate))).toBe("taken");
  expect(federation.update(one, bundle(8))).toBe("sequence-backwards");
  expect(federation.update(two, bundle(2))).toBe("taken");
  expect([...federation.current.keys()]).toEqual([one]);
});

test("a bundle with a root of another trust domain is refused whole", async () => {
  const federation = new FederatedBundles();
  const [own, other] = await Promise.all(
    ["one.test", "two.test"].map((name) => createTestAuthority(name, `spiffe://${name}`)),
  );
  const roots = [own, other].flatMap((each) => each?.certificate ?? []);
  const bundle = { sequence: 1, refreshSeconds: 300, jwtKeys: [], roots };
  expect(federation.update(domain("one.test"), bundle)).toBe("other-trust-domain");
  expect(federation.update(domain("one.test"), { ...bundle, roots: roots.slice(0, 1) })).toBe(
    "taken",
  );
});
