import type { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { generateSubjectKey, parseAnswer } from "../../../src/agent/identity/x509-svid.ts";
import { TrustRoots } from "../../../src/agent/trust/trust-roots.ts";
import { JwtSvidKeys } from "../../../src/pki/jose/jwt-svid-keys.ts";
import { MeshRoots } from "../../../src/program/bundle/mesh-roots.ts";
import {
  bundleOf,
  createTestAuthority,
  type TestAuthority,
} from "../../testkit/agent/test-authority.ts";
import { createTokenKey } from "../../testkit/callers/tokens.ts";
import { workload } from "../../testkit/pki/certificates.ts";

const now = new Date("2026-11-21T12:00:01Z");
const [a, b, c] = await Promise.all(["a", "b", "c"].map((name) => createTestAuthority(name)));
const key = await generateSubjectKey({ kind: "EC", curve: "P-256" });
if (!a || !b || !c) throw new Error("an authority is missing");

/** Creates an answer for `foo/<name>`, which the first of its roots has issued. */
async function answer(name: string, issuer: TestAuthority, ...others: TestAuthority[]) {
  const spiffeId = workload("foo", name);
  const leaf = await issuer.issue(spiffeId, key.publicKey);
  const bundle = [issuer, ...others].map(({ pem }) => pem).join("");
  return parseAnswer([leaf, bundle], { spiffeId, privateKey: key.privateKey }, now);
}

/** What an agent trusts that has read bundles with these roots, one after the other. */
function followed(...bundles: readonly (readonly TestAuthority[])[]): TrustRoots {
  const trust = new TrustRoots();
  for (const [i, roots] of bundles.entries()) trust.updateFromBundle(bundleOf(i + 1, ...roots));
  return trust;
}

const names = (trust: TrustRoots): string =>
  trust.current
    .map(({ subject }) => subject.replace("O=", ""))
    .toSorted()
    .join("");

test("roots are sorted by their PEM and joined by newlines, as Istio serves them", async () => {
  const trust = new TrustRoots();
  trust.updateFromAnswer(await answer("x", a, b, a, c));
  const pems = [a, b, c].map(({ certificate }) => certificate.toString().trimEnd()).toSorted();
  expect(trust.pem).toBe(pems.join("\n"));
});

test("roots of an answer replace those of the answer before", async () => {
  const trust = new TrustRoots();
  trust.updateFromAnswer(await answer("x", a));
  trust.updateFromAnswer(await answer("x", b));
  // Nothing was read that could be confirmed.
  trust.confirmBundle();
  expect(names(trust)).toBe("b");
});

test("a wait for a root ends with the first one, with its signal, and at once where one is known", async () => {
  const trust = new TrustRoots();
  const [ending, { signal }] = [new AbortController(), new AbortController()];
  const [ended, met] = [trust.known(ending.signal), trust.known(signal)];
  ending.abort();
  await ended;
  trust.updateFromAnswer(await answer("x", a));
  await met;
  await trust.known(signal);
});

test("roots of answers for several identities are all trusted", async () => {
  const trust = new TrustRoots();
  trust.updateFromAnswer(await answer("x", a));
  trust.updateFromAnswer(await answer("y", b));
  expect(names(trust)).toBe("ab");
  trust.remove(workload("foo", "x"));
  expect(names(trust)).toBe("b");
});

test("roots are those of the bundle once there is one, and beside them of a later answer until the next poll", async () => {
  const trust = new TrustRoots();
  trust.updateFromAnswer(await answer("x", c));
  expect(trust.updateFromBundle(bundleOf(1, a))).toBe("changed");
  expect(names(trust)).toBe("a");
  trust.updateFromAnswer(await answer("x", b));
  expect(names(trust)).toBe("ab");
  trust.confirmBundle();
  expect(names(trust)).toBe("a");
});

test("roots that a bundle has withdrawn are restored by a newer one, and by no answer and no older one", async () => {
  const trust = followed([a, b], [b]);
  const stale = await answer("x", a, b);
  expect(trust.accepts(stale, now)).toBe(false);
  trust.updateFromAnswer(stale);
  expect(names(trust)).toBe("b");
  expect(trust.updateFromBundle(bundleOf(1, a, b))).toBe("sequence-backwards");
  expect(names(trust)).toBe("b");
  trust.updateFromBundle(bundleOf(3, a, b));
  expect(trust.accepts(stale, now)).toBe(true);
  expect(names(trust)).toBe("ab");
});

test("a bundle of a lower number is current while its roots and keys are the same", async () => {
  const trust = new TrustRoots();
  trust.updateFromBundle(bundleOf(3, a, b));
  expect(trust.updateFromBundle(bundleOf(2, b, a))).toBe("unchanged");
  expect(trust.sequence).toBe(3);
  const { publicJwk } = await createTokenKey("ES256", "k");
  const keys = JwtSvidKeys.in([{ ...publicJwk, use: "jwt-svid" }]);
  expect(keys).toHaveLength(1);
  expect(trust.updateFromBundle({ ...bundleOf(2, a, b), jwtKeys: keys })).toBe(
    "sequence-backwards",
  );
});

test("roots are kept when a bundle is empty", () => {
  const trust = followed([a]);
  expect(trust.updateFromBundle(bundleOf(2))).toBe("empty");
  expect(names(trust)).toBe("a");
});

test("roots of an earlier run count until the first answer", async () => {
  const trust = new TrustRoots();
  trust.restore("", [a.certificate]);
  trust.restore(workload("foo", "x"), [b.certificate]);
  expect(names(trust)).toBe("ab");
  trust.updateFromAnswer(await answer("x", c));
  expect(names(trust)).toBe("c");
});

test("roots notify of changes alone, and do not verify a certificate whose root is gone", async () => {
  const trust = new TrustRoots();
  let changes = 0;
  trust.changes.add(() => changes++);
  const taken = await answer("x", a);
  trust.updateFromAnswer(taken);
  trust.updateFromAnswer(await answer("x", a));
  trust.updateFromBundle(bundleOf(1, a));
  trust.confirmBundle();
  expect(changes).toBe(1);
  trust.updateFromBundle(bundleOf(2, a, b));
  expect(changes).toBe(2);
  expect(trust.verifies(taken.svid, now)).toBe(true);
  trust.updateFromBundle(bundleOf(3, b));
  expect(trust.verifies(taken.svid, now)).toBe(false);
});

test("the root of a CA in a file counts when an agent with a cache comes back from another CA", async () => {
  const first = new TrustRoots("https://a.test");
  first.updateFromAnswer(await answer("x", a));
  const second = new TrustRoots("https://b.test");
  second.recall(first.record);
  expect(names(second)).toBe("a");
  second.updateFromAnswer(await answer("x", b));
  const back = new TrustRoots("https://a.test");
  back.recall(second.record);
  expect(back.forConnection([a.certificate])).toEqual([a.certificate]);
});

test("the roots of a file count while the mesh has none that are current", async () => {
  const next = new TrustRoots("https://a.test");
  next.recall(`named by https://a.test\nformer ${a.certificate.fingerprint256}\n`);
  expect(next.current).toEqual([]);
  expect(next.forConnection([a.certificate])).toEqual([a.certificate]);
});

test("a root that the CA has withdrawn counts in no file in the next run, even at another address", async () => {
  const first = new TrustRoots("https://a.test");
  first.updateFromBundle(bundleOf(1, a));
  first.updateFromBundle(bundleOf(2, b));
  for (const address of ["https://a.test", "https://b.test"]) {
    const next = new TrustRoots(address);
    next.recall(first.record);
    expect(next.forConnection([a.certificate])).toEqual(next.current);
  }
});

test("a certificate is withdrawn once its root was and another is none of the mesh's", async () => {
  const trust = new TrustRoots();
  const [own, others] = [await answer("x", a), await answer("x", c)];
  const isWithdrawn = ({ svid: { chain } }: typeof own): boolean =>
    trust.hasWithdrawn(chain[0], [a.certificate, b.certificate], now);
  trust.updateFromBundle(bundleOf(1, a, b));
  expect([own, others].map(isWithdrawn)).toEqual([false, false]);
  trust.updateFromBundle(bundleOf(2, b));
  expect([own, others].map(isWithdrawn)).toEqual([true, false]);
  trust.updateFromBundle(bundleOf(3, a, b));
  expect(isWithdrawn(own)).toBe(false);
  // The root is withdrawn, but not its key.
  trust.updateFromBundle(bundleOf(4, await a.again(), b));
  expect(isWithdrawn(own)).toBe(false);
});

test("an answer is accepted by the root that it leads to, and one of its roots that was withdrawn does not count", async () => {
  const trust = followed([a, b], [b]);
  // Each has both roots, and a leaf of its first.
  expect(trust.accepts(await answer("x", b, a), now)).toBe(true);
  expect(trust.accepts(await answer("x", a, b), now)).toBe(false);
  const { svid } = await answer("x", a);
  const stale = { svid, roots: [b.certificate, a.certificate, c.certificate] };
  expect(trust.accepts(stale, now)).toBe(false);
  trust.updateFromAnswer({ ...(await answer("x", b)), roots: stale.roots });
  expect(names(trust)).toBe("bc");
});

test("a bundle of the same number and other content counts: its CA does without numbers", () => {
  const trust = new TrustRoots();
  for (const [each, expected] of [
    [[a], "a"],
    [[b], "b"],
    [[a, c], "ac"],
  ] as const) {
    trust.updateFromBundle(bundleOf(0, ...each));
    expect(names(trust)).toBe(expected);
  }
});

test("roots are held back as the last call says, and no others", () => {
  const trust = followed([a, b, c]);
  const told: number[] = [];
  trust.changes.add(() => told.push(trust.served.length));
  trust.holdBack([a.certificate]);
  trust.holdBack([b.certificate]);
  trust.holdBack([b.certificate]);
  expect(trust.served).not.toContain(b.certificate);
  trust.holdBack([]);
  expect(told).toEqual([2, 2, 3]);
});

test("roots of a file that are none of the mesh's count beside the current ones", () => {
  const roots = new MeshRoots();
  roots.update([a.certificate]);
  roots.update([b.certificate]);
  const file = [a, c].map(({ certificate }) => certificate);
  expect(roots.forConnection(file)).toEqual([c.certificate, b.certificate]);
});

test("of a hundred known roots the one that was current the longest ago is forgotten", () => {
  const roots = new MeshRoots();
  const named = (fingerprint256: string) => ({ fingerprint256 }) as X509Certificate;
  roots.update([named("first"), named("second")]);
  roots.update([named("first")]);
  for (let i = 0; i < 99; i++) roots.update([named(`${i}`)]);
  const left = roots.forConnection([named("first"), named("second")]);
  expect(left.map(({ fingerprint256 }) => fingerprint256)).toEqual(["second", "98"]);
});
