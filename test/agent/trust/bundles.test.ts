import { expect, test } from "vitest";
import { JwtBundles } from "../../../src/agent/trust/bundles.ts";
import type { KeySet } from "../../../src/pki/jose/key-set.ts";
import { TrustDomain } from "../../../src/pki/spiffe-id.ts";

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

test("a key of the same name and other material is another one, of which readers hear", () => {
  const bundles = new JwtBundles();
  let changes = 0;
  bundles.changes.add(() => changes++);
  for (const each of ["k1=a", "k1=a", "k1=b"]) bundles.update(own, keys(each));
  expect(changes).toBe(2);
  expect(bundles.keysOf(own)).toEqual(keys("k1=b"));
});
