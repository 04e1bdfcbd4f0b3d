import { expect, test } from "vitest";
import { FederatedBundles, JwtBundles } from "../../../src/agent/trust/bundles.ts";
import type { KeySet } from "../../../src/pki/jose/key-set.ts";
import { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { bundleOf, createTestAuthority } from "../../testkit/agent/test-authority.ts";

const domain = (name: string): TrustDomain => TrustDomain.parse(name) as TrustDomain;
const [own, foreign] = [domain("cluster.local"), domain("foreign.test")];
const keys = (...names: readonly string[]): KeySet =>
  names.map((name) => {
    const [keyId = "", material = keyId] = name.split("=");
    return { keyId, material, algorithms: ["ES256"] };
  }) as unknown as KeySet;

test("a key that one trust domain has withdrawn stays good in another that has one of its name, and is again once it comes back", () => {
  const bundles = new JwtBundles();
  for (const each of [foreign, own]) bundles.update(each, keys("k1", "k2"));
  bundles.update(foreign, keys("k2"));
  expect([foreign, own].map((each) => bundles.isWithdrawn(each, "k1"))).toEqual([true, false]);
  bundles.update(foreign, keys("k1", "k2"));
  expect(bundles.isWithdrawn(foreign, "k1")).toBe(false);
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

const [root, named, other, longer] = await Promise.all([
  createTestAuthority(),
  createTestAuthority("own", "spiffe://cluster.local"),
  createTestAuthority("other", "spiffe://other.local"),
  createTestAuthority("longer", "spiffe://cluster.local.evil"),
]);

test("each federated trust domain has a sequence of its own", () => {
  const federation = new FederatedBundles();
  const [one, two] = [domain("one.test"), domain("two.test")];
  expect(federation.update(one, bundleOf(9, root))).toBe("taken");
  expect(federation.update(two, bundleOf(1, root))).toBe("taken");
  expect(federation.update(one, bundleOf(8))).toBe("sequence-backwards");
  expect(federation.update(two, bundleOf(2))).toBe("taken");
  expect([...federation.current.keys()]).toEqual([one]);
});

test("a federated bundle of a lower number with the same content is taken, and no older one after it", () => {
  const bundles = new FederatedBundles();
  bundles.update(own, bundleOf(3, root));
  expect(bundles.update(own, bundleOf(1, root))).toBe("taken");
  expect(bundles.update(own, bundleOf(2))).toBe("sequence-backwards");
  expect(bundles.current.get(own)).toHaveLength(1);
});

test("a federated bundle with one root of another trust domain is refused, whatever its other roots are", () => {
  const bundles = new FederatedBundles();
  expect(bundles.update(own, bundleOf(1, named))).toBe("taken");
  for (const roots of [[other], [named, other], [other, named], [root, other], [longer]]) {
    expect(bundles.update(own, bundleOf(2, ...roots))).toBe("other-trust-domain");
  }
  expect(bundles.current.get(own)).toEqual([named.certificate]);
});
