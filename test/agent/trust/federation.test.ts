import { expect, test } from "vitest";
import { FederatedBundles } from "../../../src/agent/trust/bundles.ts";
import type { SpiffeBundle } from "../../../src/program/bundle/spiffe-bundle.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";

const [root, own, other, longer] = await Promise.all([
  createTestAuthority(),
  createTestAuthority("own", "spiffe://cluster.local"),
  createTestAuthority("other", "spiffe://other.local"),
  createTestAuthority("longer", "spiffe://cluster.local.evil"),
]);

const document = (sequence: number, ...roots: readonly (typeof root)[]): SpiffeBundle => ({
  sequence,
  refreshSeconds: 1,
  jwtKeys: [],
  roots: roots.map(({ certificate }) => certificate),
});

test("a federated bundle that goes backwards is refused", () => {
  const bundles = new FederatedBundles();
  expect(bundles.update(clusterLocal, document(2, root))).toBe("taken");
  expect(bundles.update(clusterLocal, document(1))).toBe("sequence-backwards");
  expect(bundles.current.get(clusterLocal)).toHaveLength(1);
});

test("a federated bundle of a lower number with the same content is taken, and no older one after it", () => {
  const bundles = new FederatedBundles();
  bundles.update(clusterLocal, document(3, root));
  expect(bundles.update(clusterLocal, document(1, root))).toBe("taken");
  expect(bundles.update(clusterLocal, document(2))).toBe("sequence-backwards");
  expect(bundles.current.get(clusterLocal)).toHaveLength(1);
});

test("a federated bundle without roots withdraws its trust domain", () => {
  const bundles = new FederatedBundles();
  bundles.update(clusterLocal, document(1, root));
  bundles.update(clusterLocal, document(2));
  expect(bundles.current.size).toBe(0);
});

test("a federated bundle with one root of another trust domain is refused, whatever its other roots are", () => {
  const bundles = new FederatedBundles();
  expect(bundles.update(clusterLocal, document(1, own))).toBe("taken");
  for (const roots of [[other], [own, other], [other, own], [root, other], [longer]]) {
    expect(bundles.update(clusterLocal, document(2, ...roots))).toBe("other-trust-domain");
  }
  expect(bundles.current.get(clusterLocal)).toEqual([own.certificate]);
});
