import { expect, test } from "vitest";
import type { AuthorityView } from "../../../src/ca/authority-view.ts";
import { SignedCrls } from "../../../src/ca/revocation/published-crls.ts";
import { WorkSharing } from "../../../src/foundation/shared-work.ts";
import { sharePromises } from "../../../src/node/limits/promise-sharing.ts";
import type { OpenAuthority } from "../../../src/pki/authority/signing-authority.ts";
import type { CryptoProvider } from "../../../src/pki/crypto-provider.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { revokeCertificates } from "../../testkit/ca/revoke-certificates.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import {
  openStore,
  publishedBundle,
  refresh,
  signerOf,
  startSigningCa,
  startWithSuccessor,
  viewOf,
} from "../../testkit/ca/tainted-ca.ts";
import { createCrlAuthority, parsedCrl } from "../../testkit/pki/crl-authority.ts";
import { readCrl } from "../../testkit/pki/crls.ts";

/** The CRLs of the views that `at` answers, with a daily life. */
const crlsOf = (
  { log }: RunningCa,
  at: () => AuthorityView,
  configuredRevocations: AuthorityView["revocations"] = [],
  shareWork: WorkSharing = sharePromises,
) =>
  new SignedCrls({
    authorities: { at, renew: async () => {} },
    configuredRevocations,
    shareWork,
    log,
    lifetimeSeconds: 86_400,
    propagationSeconds: 600,
  });

test("a CRL is signed again when its revocations change and their number does not", async () => {
  // A namesake's revocation comes and goes, and changes their number.
  const ca = await startSigningCa({ CRL: "on" }, { hasNoNamesake: true });
  await revokeCertificates(ca, ["0a"], ca.now());
  ca.pass(refresh);
  const first = await viewOf(ca);
  for (const key of [...ca.store.records.keys()]) {
    if (key.startsWith("revocation/")) ca.store.records.delete(key);
  }
  await revokeCertificates(ca, ["0b"], ca.now());
  ca.pass(refresh);
  const views: AuthorityView[] = [first, await viewOf(ca)];
  // The configuration states another one.
  const configured = first.revocations.map(({ certificates, ...each }) => ({
    ...each,
    certificates: new Map([...certificates.values()].map((end) => ["0c", end])),
  }));
  const source = crlsOf(ca, () => views.shift() ?? first, configured);
  await source.at(ca.now());
  expect(readCrl((await source.at(ca.now())).pem).entries.toSorted()).toEqual([
    ["0b", 1],
    ["0c", 1],
  ]);
});

test.each<[string, WorkSharing]>([
  ["a promise", sharePromises],
  ["polls", WorkSharing.polling(() => new Date())],
])(
  "a request that waits for work on older revocations, by %s, is answered with its own",
  async (_, shareWork) => {
    const ca = await startSigningCa({ CRL: "on" });
    const older = await viewOf(ca);
    await revokeCertificates(ca, ["0a"], ca.now());
    ca.pass(refresh);
    const newer = await viewOf(ca);
    const views: AuthorityView[] = [older, newer];
    const source = crlsOf(ca, () => views.shift() ?? newer, [], shareWork);
    const [, own] = await Promise.all([source.at(ca.now()), source.at(ca.now())]);
    expect(readCrl(own.pem).entries).toEqual([["0a", 1]]);
  },
);

test("the next CRL of a root in a key service is published in place of the one before, in the same period", async () => {
  const ca = await startSigningCa({ CRL: "on" });
  const root = await createCrlAuthority();
  const view = await viewOf(ca);
  const [one, two] = await Promise.all(
    [1, 2].map(async (number) => parsedCrl(await root.crl({ number }))),
  );
  if (!one || !two) throw new Error("no CRLs");
  const roots = [...view.trustBundle.roots, new Uint8Array(root.certificate.raw)];
  const withCrl = (crl: typeof one): AuthorityView => ({
    ...view,
    trustBundle: { ...view.trustBundle, roots },
    store: { ...view.store, statements: { ...view.store.statements, crl: [crl] } },
  });
  const views = [withCrl(one), withCrl(two)];
  const source = crlsOf(ca, () => views.shift() ?? withCrl(two));
  const before = await source.at(ca.now());
  const after = await source.at(ca.now());
  expect([before, after].map(({ ofBundle }) => ofBundle.at(-1)?.der)).toEqual([one.der, two.der]);
  expect(after.digest).not.toBe(before.digest);
});

test("no root is published without its CRL: the rotation stores no authority that cannot sign one", async () => {
  const day = 86_400;
  let areBroken = false;
  const good = new Set<string>();
  const cryptoProvider: CryptoProvider = {
    ...webCryptoProvider,
    unwrapSigningKey: async (wrapped, algorithm) => {
      const key = await webCryptoProvider.unwrapSigningKey(wrapped, algorithm);
      const octets = wrapped.octets.join();
      if (!areBroken) good.add(octets);
      const sign = () => Promise.reject(new Error("this key signs nothing"));
      return good.has(octets) ? key : { ...key, sign };
    },
  };
  const ca = await startCa({ CRL: "on", PROPAGATION_INTERVAL: "600s" }, { cryptoProvider });
  await ca.rotate();
  areBroken = true;
  ca.pass(200 * day);
  await expect(ca.rotate()).rejects.toThrow("the rotation met 1 faults");
  expect(ca.log.operations.at(-1)).toMatchObject({
    event: "rotation-fault",
    detail: "this key signs nothing",
  });
  ca.pass(day);
  expect((await publishedBundle(ca))?.roots).toHaveLength(1);
  const { crls } = (await ca.certificateAuthority.crls?.(ca.now())) ?? {};
  expect(crls?.map(({ authority }) => authority)).toEqual([await signerOf(ca)]);
  expect((await openStore(ca.mint)).authorities).toHaveLength(1);
});

/** The view of a CA with two authorities in its bundle, of which the first by id signs or does not. */
async function withTwoIssuers() {
  const { ca } = await startWithSuccessor({ hasNoNamesake: true });
  const view = await viewOf(ca);
  const [first, second] = view.crlIssuers;
  if (!first || !second) throw new Error("not two authorities");
  const broken: OpenAuthority = {
    ...first,
    signingKey: { ...first.signingKey, sign: () => Promise.reject(new Error("signs nothing")) },
  };
  const views = { both: view, one: { ...view, crlIssuers: [broken, second] } };
  const names = { first: first.authority.id, second: second.authority.id };
  let current: AuthorityView = view;
  const source = crlsOf(ca, () => current);
  const show = (next: AuthorityView) => {
    current = next;
  };
  const authoritiesAt = async (now: Date) =>
    (await source.at(now)).crls.map(({ authority }) => authority);
  return { ca, views, names, source, show, authoritiesAt };
}

test("an authority that cannot sign leaves the CRLs of the others, and its own last one", async () => {
  const { ca, views, names, show, source, authoritiesAt } = await withTwoIssuers();
  show(views.one);
  expect(await authoritiesAt(ca.now())).toEqual([names.second]);
  expect(ca.log.operations.at(-1)).toMatchObject({ event: "crl-fault", authority: names.first });
  show(views.both);
  ca.pass(86_400);
  const { crls: before } = await source.at(ca.now());
  expect(before).toHaveLength(2);
  show(views.one);
  ca.pass(86_400);
  const { crls: after } = await source.at(ca.now());
  expect(after.map(({ authority }) => authority)).toEqual([names.first, names.second]);
  expect(after.map(({ der }, i) => der === before[i]?.der)).toEqual([true, false]);
});

test("a CRL that could not be signed is signed a minute later, and no sooner", async () => {
  const { ca, views, names, show, authoritiesAt } = await withTwoIssuers();
  show(views.one);
  for (const seconds of [0, 30, 29]) {
    ca.pass(seconds);
    expect(await authoritiesAt(ca.now())).toEqual([names.second]);
  }
  const faults = ca.log.operations.filter(({ event }) => event === "crl-fault");
  expect(faults).toHaveLength(1);
  show(views.both);
  expect(await authoritiesAt(ca.now())).toEqual([names.second]);
  ca.pass(1);
  expect(await authoritiesAt(ca.now())).toEqual([names.first, names.second]);
});

test("a CRL that could not be signed is signed at once by a clock that was set back", async () => {
  const { ca, views, names, show, authoritiesAt } = await withTwoIssuers();
  show(views.one);
  ca.pass(3600);
  await authoritiesAt(ca.now());
  show(views.both);
  ca.pass(-1800);
  expect(await authoritiesAt(ca.now())).toEqual([names.first, names.second]);
});

test("the CRL of an authority is none of another that takes its place", async () => {
  const { ca, views, names, show, authoritiesAt } = await withTwoIssuers();
  const [first, second] = views.both.crlIssuers;
  if (!first || !second) throw new Error("unreachable");
  show({ ...views.both, crlIssuers: [first] });
  expect(await authoritiesAt(ca.now())).toEqual([names.first]);
  show({ ...views.both, crlIssuers: [second] });
  expect(await authoritiesAt(ca.now())).toEqual([names.second]);
});
