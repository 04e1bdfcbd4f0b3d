import { X509Certificate } from "node:crypto";
import { expect } from "vitest";
import { Mint } from "../../../src/ca/mint.ts";
import { trustRoot } from "../../../src/ca/rotation/adopt.ts";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import { createRootTaint } from "../../../src/pki/authority/new-taint.ts";
import { AdditionalRoot } from "../../../src/pki/authority/trust-bundle.ts";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { rootCertificates } from "../../fuzz/corpus/certificates.ts";
import { caTest as test } from "../../testkit/ca/ca-test.ts";
import type { RunningCa } from "../../testkit/ca/running-ca.ts";
import {
  issueLeaf,
  openStore,
  propagation,
  publishedBundle,
  readiness,
  refresh,
  signerOf,
  startSigningCa,
  taintKeyOf,
} from "../../testkit/ca/tainted-ca.ts";
import { applyEdit, type DerEdit } from "../../testkit/der/mutation.ts";
import { createRoot, type RootOptions } from "../../testkit/pki/foreign-root.ts";
import { generateKeys } from "../../testkit/pki/plugged-in.ts";

const base64 = (der: Uint8Array): string => Buffer.from(der).toString("base64");

/** A CA that trusts another root from a minute on. */
async function startWithRoot(options: Partial<RootOptions> = {}) {
  const ca = await startSigningCa({}, { hasNoNamesake: true });
  const before = await publishedBundle(ca);
  const root = await createRoot({ notAfter: addSeconds(ca.now(), 1e8), ...options });
  await trustRoot(ca.mint, root, addSeconds(ca.now(), refresh));
  ca.pass(refresh);
  return { ca, root, before };
}

async function retire({ mint, now }: RunningCa, at: Date): Promise<string> {
  const [root] = (await openStore(mint)).additionalRoots;
  if (!root) throw new Error("no root");
  await Mint.recordTaint(mint, createRootTaint(root, at, now()));
  return root.id;
}

test("an additional root is in the bundle in both formats, and in the last element of every answer after the CA's own root", async () => {
  const { ca, root, before } = await startWithRoot();
  const expected = [...(before?.roots ?? []), base64(root)];
  expect((await publishedBundle(ca))?.roots).toEqual(expected);
  const pem = await (await ca.app.request("/bundle.pem")).text();
  const { chain, leaf, roots } = await issueLeaf(ca);
  expect(chain).toHaveLength(2);
  expect(chain.at(-1)).toBe(pem);
  expect(roots.map(({ raw }) => base64(raw))).toEqual(expected);
  expect(leaf.verify(new X509Certificate(root).publicKey)).toBe(false);
});

test("an additional root is published from its instant, and only that moves the sequence", async ({
  ca,
}) => {
  const root = await createRoot({ notAfter: addSeconds(ca.now(), 1e8) });
  const before = await publishedBundle(ca);
  const from = addSeconds(ca.now(), 2 * refresh);
  await trustRoot(ca.mint, root, from);
  expect(ca.log.operations.at(-1)).toMatchObject({
    event: "root-trusted",
    root: (await openStore(ca.mint)).additionalRoots[0]?.id,
    publishedFrom: from.toISOString(),
  });
  ca.pass(2 * refresh - 1);
  expect(await publishedBundle(ca)).toEqual(before);
  ca.pass(1);
  const after = await publishedBundle(ca);
  expect(after?.sequence).toBe(Math.floor(from.getTime() / 1000) * 1000);
  ca.pass(10_000);
  await Rotation.rotate(ca.mint, ca.now());
  expect(await publishedBundle(ca)).toEqual(after);
});

test("an additional root never signs, mints nothing, and is never pruned", async () => {
  const { ca } = await startWithRoot();
  const signer = await signerOf(ca);
  const before = new Map(ca.store.records);
  for (let i = 0; i < 3; i++) {
    await Rotation.rotate(ca.mint, ca.now());
    ca.pass(86_400);
    expect(await signerOf(ca)).toBe(signer);
  }
  expect(ca.store.records).toEqual(before);
});

test("an additional root that is the CA's own is in the bundle once, and changes no other root", async ({
  ca,
}) => {
  const before = await publishedBundle(ca);
  const own = Buffer.from(before?.roots[0] ?? "", "base64");
  await trustRoot(ca.mint, own, addSeconds(ca.now(), 10));
  ca.pass(refresh);
  expect((await publishedBundle(ca))?.roots).toEqual(before?.roots);
  expect((await issueLeaf(ca)).roots).toHaveLength(1);
});

test("an additional root leaves the bundle when it expires", async ({ ca }) => {
  const before = await publishedBundle(ca);
  await trustRoot(ca.mint, await createRoot({ notAfter: addSeconds(ca.now(), 1000) }), ca.now());
  ca.pass(999);
  const during = await publishedBundle(ca);
  expect(during?.roots).toHaveLength(2);
  ca.pass(1);
  const after = await publishedBundle(ca);
  expect(after?.roots).toEqual(before?.roots);
  expect(after?.sequence).toBeGreaterThan(during?.sequence ?? Number.NaN);
});

test("an additional root leaves the bundle at the instant that the operator chose, and /readyz says so until then", async () => {
  const { ca, before } = await startWithRoot();
  const during = await publishedBundle(ca);
  const at = addSeconds(ca.now(), 1000);
  const id = await retire(ca, at);
  ca.pass(999);
  expect(await publishedBundle(ca)).toEqual(during);
  expect(await readiness(ca)).toMatchObject({
    ready: true,
    reasons: [expect.stringContaining(id)],
  });
  ca.pass(1);
  const after = await publishedBundle(ca);
  expect(after?.roots).toEqual(before?.roots);
  expect(after?.sequence).toBeGreaterThan(during?.sequence ?? Number.NaN);
  expect(await readiness(ca)).toEqual({ ready: true, reasons: [] });
  expect([...ca.store.records.keys()]).toContain(`root/${id}`);
});

test.each([
  ["is no JSON", () => "junk", "form"],
  [
    "was altered",
    (value: string) => value.replace('"publishedFrom":"2026', '"publishedFrom":"2025'),
    "seal",
  ],
])("an additional root is left out and reported when its record %s", async (_, spoil, check) => {
  const { ca, before } = await startWithRoot();
  const [[key, value] = ["", ""]] = [...ca.store.records].filter(([name]) =>
    name.startsWith("root/"),
  );
  ca.store.records.set(key, spoil(value));
  ca.pass(refresh);
  expect(await publishedBundle(ca)).toEqual(before);
  expect(await readiness(ca)).toEqual({
    ready: true,
    reasons: [expect.stringMatching(new RegExp(`does not open: ${check}$`))],
  });
  await expect(Rotation.rotate(ca.mint, ca.now())).rejects.toThrow(AggregateError);
});

test("an additional root stays when its retirement does not open, and that is reported", async () => {
  const { ca } = await startWithRoot();
  const during = await publishedBundle(ca);
  const id = await retire(ca, ca.now());
  ca.store.records.set(taintKeyOf(ca, id), "junk");
  ca.pass(refresh);
  expect(await publishedBundle(ca)).toEqual(during);
  expect(await readiness(ca)).toEqual({
    ready: true,
    reasons: [expect.stringMatching(/^the taint .* does not open: form$/)],
  });
});

test("an additional root that is added again stays in the bundle", async () => {
  const { ca, root } = await startWithRoot();
  const during = await publishedBundle(ca);
  await trustRoot(ca.mint, root, addSeconds(ca.now(), 600)).catch(() => {});
  ca.pass(refresh);
  expect(await publishedBundle(ca)).toEqual(during);
});

test("an additional root that was retired is refused when it is added again, or trusted", async () => {
  const { ca, root } = await startWithRoot();
  await retire(ca, ca.now());
  ca.pass(refresh);
  const isRefused = await trustRoot(ca.mint, root, ca.now()).then(
    () => false,
    () => true,
  );
  ca.pass(refresh);
  const roots = (await publishedBundle(ca))?.roots ?? [];
  expect(isRefused || roots.includes(base64(root))).toBe(true);
});

test("an additional root moves the sequence when it leaves, even if the store shows a later retirement first", async () => {
  const { ca } = await startWithRoot();
  const other = await createRoot({ notAfter: addSeconds(ca.now(), 1e8) });
  await trustRoot(ca.mint, other, addSeconds(ca.now(), refresh));
  ca.pass(2 * refresh);
  const { additionalRoots } = await openStore(ca.mint);
  const [first, second] = additionalRoots.map((root, i) =>
    createRootTaint(root, addSeconds(ca.now(), propagation + 10 * i), ca.now()),
  );
  if (!first || !second) throw new Error("no roots");
  const before = await publishedBundle(ca);
  await Mint.recordTaint(ca.mint, second);
  ca.pass(refresh);
  await Mint.recordTaint(ca.mint, first);
  ca.pass(propagation + 10 - refresh);
  const after = await publishedBundle(ca);
  expect([before?.roots.length, after?.roots.length]).toEqual([3, 1]);
  expect(after?.sequence).toBeGreaterThan(before?.sequence ?? Number.NaN);
});

test("an additional root does not take the bundle with it for having an RSA key with the exponent 3", async ({
  ca,
}) => {
  const algorithm = {
    name: "RSASSA-PKCS1-v1_5",
    modulusLength: 2048,
    publicExponent: new Uint8Array([3]),
    hash: "SHA-256",
  };
  const keys = await generateKeys(algorithm);
  const root = await createRoot({ notAfter: addSeconds(ca.now(), 1e8), keys });
  await trustRoot(ca.mint, root, ca.now()).catch(() => {});
  ca.pass(refresh);
  expect(await publishedBundle(ca)).toBeDefined();
});

const unreadable: Readonly<Record<string, DerEdit>> = {
  "a name that OpenSSL does not read": { at: [0, 5, 0, 0, 1], replace: "0c02c328" },
  "a name that only OpenSSL reads": { at: [0, 5, 0, 0, 1], replace: "3000" },
  "a negative serial number": { at: [0, 1], replace: "0201ff" },
  "a key usage that OpenSSL does not read": { at: [0, 7, 0, 0, 2], replace: "04020500" },
  "the extensions of a leaf": { at: [0, 7, 0, 1, 2], replace: "04023000" },
};

test.each(Object.entries(unreadable))(
  "refuses an additional root with %s, because the bundle would be as unreadable",
  async (_, edit) => {
    const { ca } = await startWithRoot();
    const before = new Map(ca.store.records);
    const [intact] = rootCertificates;
    if (!intact) throw new Error("the corpus has no root");
    const root = applyEdit(intact, edit);
    await expect(trustRoot(ca.mint, root, ca.now())).rejects.toBeInstanceOf(DerError);
    expect(ca.store.records).toEqual(before);
  },
);

test("an additional root is not stored when it would not open again", async () => {
  const { ca } = await startWithRoot();
  const before = new Map(ca.store.records);
  const large = await createRoot({ notAfter: addSeconds(ca.now(), 1e8), paddingOctets: 30_000 });
  await expect(trustRoot(ca.mint, large, ca.now())).rejects.toThrow();
  expect(ca.store.records).toEqual(before);
});

test("a root that TAINTED_AUTHORITIES has is not trusted, and any other is", async ({ ca }) => {
  const [own, other] = await Promise.all(
    [1e8, 2e8].map((seconds) => createRoot({ notAfter: addSeconds(ca.now(), seconds) })),
  );
  if (!own || !other) throw new Error("unreachable");
  const { id } = AdditionalRoot.create(own, ca.now());
  const mint = { ...ca.mint, configuredTaints: [{ idPrefix: id, rootUntil: undefined }] };
  await expect(trustRoot(mint, own, ca.now())).rejects.toThrow("TAINTED_AUTHORITIES has this root");
  await trustRoot(mint, other, ca.now());
  expect((await openStore(ca.mint)).additionalRoots).toHaveLength(1);
});
