import { expect, test } from "vitest";
import type { AuthorityView } from "../../../src/ca/authority-view.ts";
import { createCrlSource } from "../../../src/ca/revocation/published-crls.ts";
import type { WorkSharing } from "../../../src/foundation/shared-work.ts";
import { pollForWork } from "../../../src/foundation/shared-work.ts";
import { sharePromises } from "../../../src/program/promise-sharing.ts";
import { revokeCertificates } from "../../testkit/ca/revoke-certificates.ts";
import { refresh, startSigningCa, viewOf } from "../../testkit/ca/tainted-ca.ts";
import { readCrl } from "../../testkit/pki/crls.ts";

test("a CRL is signed again when as many other certificates are revoked", async () => {
  const ca = await startSigningCa({ CRL: "on" });
  await revokeCertificates(ca, ["0a"], ca.now());
  ca.pass(refresh);
  const first = await viewOf(ca);
  for (const key of [...ca.store.records.keys()]) {
    if (key.startsWith("revocation/")) ca.store.records.delete(key);
  }
  await revokeCertificates(ca, ["0b"], ca.now());
  ca.pass(refresh);
  const views: AuthorityView[] = [first, await viewOf(ca)];
  const source = createCrlSource({
    authorities: { at: () => views.shift() ?? first, renew: async () => {} },
    configuredRevocations: [],
    shareWork: sharePromises,
    log: ca.log,
    lifetimeSeconds: 86_400,
    propagationSeconds: 600,
  });
  await source(ca.now());
  expect(readCrl((await source(ca.now())).pem).entries).toEqual([["0b", 1]]);
});

test.each<[string, WorkSharing]>([
  ["a promise", sharePromises],
  ["polls", pollForWork(() => new Date())],
])(
  "a request that waits for work on older revocations, by %s, is answered with its own",
  async (_, shareWork) => {
    const ca = await startSigningCa({ CRL: "on" });
    const older = await viewOf(ca);
    await revokeCertificates(ca, ["0a"], ca.now());
    ca.pass(refresh);
    const newer = await viewOf(ca);
    const views: AuthorityView[] = [older, newer];
    const source = createCrlSource({
      authorities: { at: () => views.shift() ?? newer, renew: async () => {} },
      configuredRevocations: [],
      shareWork,
      log: ca.log,
      lifetimeSeconds: 86_400,
      propagationSeconds: 600,
    });
    const [, own] = await Promise.all([source(ca.now()), source(ca.now())]);
    expect(readCrl(own.pem).entries).toEqual([["0a", 1]]);
  },
);
