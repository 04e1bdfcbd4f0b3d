import "reflect-metadata/lite";
import { X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import { hex } from "../../../testkit/der/mutation.ts";
import {
  type CaDepartures,
  createCa,
  generateKeys,
  isCa,
  materialOf,
  maySign,
  now,
  rsa,
  type TestCa,
} from "../../../testkit/pki/plugged-in.ts";
import { linesFor, requireRefused, requireWarned, verify } from "./verifying.ts";

const root = await createCa("O=mesh,CN=root");
const upper = await createCa("O=mesh,CN=upper", { issuer: root });
const authority = await createCa("O=mesh,CN=authority", { issuer: upper });
const stranger = await createCa("O=stranger");

const derOf = ({ pem }: TestCa) => new Uint8Array(new X509Certificate(pem).raw);

test("orders the chain from the authority upwards, without the root", async () => {
  const chain = authority.pem + upper.pem + root.pem;
  const imported = await verify(materialOf(authority, { chain, roots: root.pem }));
  expect(imported.certificates).toEqual({
    certificate: derOf(authority),
    intermediates: [derOf(authority), derOf(upper)],
    roots: [derOf(root)],
  });
  expect(imported.additionalRoots).toEqual([]);
  expect(imported.warnings).toEqual([]);
  expect(imported.notAfter).toEqual(new Date("2036-01-01T00:00:00.000Z"));
  expect(imported.privateKey).toMatchObject({ extractable: true, type: "private" });
});

test("takes a chain behind the certificate, as in tls.crt, and one without the authority", async () => {
  const behind = { ...authority, pem: authority.pem + upper.pem };
  const one = await verify(materialOf(behind, { roots: root.pem }));
  const two = await verify(materialOf(authority, { chain: upper.pem, roots: root.pem }));
  expect(one.certificates).toEqual(two.certificates);
  expect([...one.warnings, ...two.warnings]).toEqual([]);
});

test("sorts a chain that is out of order, with a warning", async () => {
  const chain = root.pem + upper.pem + authority.pem;
  const imported = await verify(materialOf(authority, { chain, roots: root.pem }));
  expect(imported.certificates.intermediates).toEqual([derOf(authority), derOf(upper)]);
  expect(imported.warnings).toEqual([expect.stringContaining("not in order")]);
});

test("takes a self-signed authority as its own root, among the roots or not", async () => {
  const certificate = derOf(root);
  for (const files of [{}, { roots: root.pem }, { roots: root.pem + root.pem }]) {
    expect(await verify(materialOf(root, files))).toMatchObject({
      certificates: { certificate, intermediates: [], roots: [certificate] },
      additionalRoots: [],
    });
  }
});

test("publishes the earlier root that istiod leaves beside a renewed one", async () => {
  const notAfter = new Date("2035-01-01T00:00:00.000Z");
  const renewed = await createCa(root.name, { keys: root.keys, notAfter });
  const imported = await verify(materialOf(renewed, { roots: root.pem }));
  expect(imported.certificates.roots).toEqual([derOf(renewed)]);
  expect(imported.additionalRoots).toEqual([derOf(root)]);
});

test("publishes other roots, none twice and none that has expired", async () => {
  const expired = await createCa("O=gone", { notAfter: new Date("2026-02-01T00:00:00.000Z") });
  const roots = root.pem + stranger.pem + expired.pem + stranger.pem;
  const imported = await verify(materialOf(upper, { roots }));
  expect(imported.additionalRoots).toEqual([derOf(stranger)]);
  expect(imported.warnings).toEqual([
    expect.stringMatching(/root-cert.pem, certificate 3 .*expired/),
  ]);
});

test("ends the chain in the valid one of two roots with the same key", async () => {
  const notAfter = new Date("2026-02-01T00:00:00.000Z");
  const expired = await createCa(root.name, { keys: root.keys, notAfter });
  const imported = await verify(materialOf(upper, { roots: expired.pem + root.pem }));
  expect(imported.certificates.roots).toEqual([derOf(root)]);
});

test("leaves out certificates beyond the chain, with a warning", async () => {
  const old = await createCa("O=old");
  const chain = upper.pem + stranger.pem + old.pem;
  const imported = await verify(materialOf(authority, { chain, roots: root.pem }));
  expect(imported.certificates.intermediates).toHaveLength(2);
  expect(imported.additionalRoots).toEqual([]);
  expect(imported.warnings).toHaveLength(2);
  expect(imported.warnings[0]).toContain("self-signed and not among the roots");
});

test("warns of certificates that expire soon", async () => {
  const notAfter = new Date("2026-07-01T00:00:00.000Z");
  const brief = await createCa("O=brief", { issuer: root, notAfter });
  const material = materialOf(brief, { roots: root.pem });
  await requireWarned(material, "30 more days only, until 2026-07-01");
  const briefRoot = await createCa("O=brief root", { notAfter });
  const outliving = await createCa("O=outliving", { issuer: briefRoot });
  const imported = await verify(materialOf(outliving, { roots: briefRoot.pem }));
  expect(imported.notAfter).toEqual(notAfter);
  expect(imported.warnings).toEqual([
    expect.stringContaining("outlives a certificate above it"),
    expect.stringContaining("30 more days only"),
  ]);
});

const uriName = (value: string) =>
  new x509.SubjectAlternativeNameExtension([{ type: "url", value }]);

test("warns of a workload's SPIFFE ID, and of another trust domain above", async () => {
  const names = [isCa(), maySign, uriName("spiffe://elsewhere.test")];
  const foreign = await createCa("O=foreign root", { extensions: names });
  const own = await createCa("O=own", {
    issuer: foreign,
    extensions: [isCa(), maySign, uriName("spiffe://cluster.local/ns/istio-system/sa/istiod")],
  });
  const { warnings } = await verify(materialOf(own, { roots: foreign.pem }));
  expect(warnings).toEqual([
    expect.stringContaining("SPIFFE ID of a workload"),
    expect.stringContaining("SPIFFE ID of another trust domain"),
  ]);
});

test.for<[string, CaDepartures, string]>([
  [
    "no key identifiers",
    { lacksKeyIdentifiers: true },
    "has no subject key identifier and no authority key identifier; `openssl -x509_strict`",
  ],
  [
    "an authority key identifier without a key",
    { extensions: [isCa(), maySign, new x509.Extension("2.5.29.35", false, hex("3000"))] },
    "has no authority key identifier; `openssl -x509_strict`",
  ],
  [
    "basic constraints that are not critical",
    { extensions: [new x509.BasicConstraintsExtension(true, undefined, false), maySign] },
    "has basic constraints that are not critical; `openssl -x509_strict`",
  ],
])("warns of what the strictest verifiers ask for: %s", async ([, departures, sentence]) => {
  const departing = await createCa("O=departing", { issuer: root, ...departures });
  await requireWarned(materialOf(departing, { roots: root.pem }), sentence);
});

test("warns of a root that names another key as its issuer's, which OpenSSL does not take for self-signed", async () => {
  const identifier = new x509.Extension("2.5.29.35", false, hex("300680040a0b0c0d"));
  const odd = await createCa("O=odd", { extensions: [isCa(), maySign, identifier] });
  await requireWarned(materialOf(odd), "OpenSSL refuses it without -partial_chain");
});

const sha1Keys = await generateKeys(rsa(2048, "SHA-1"));
const serialOf = ({ pem }: { readonly pem: string }) => new x509.X509Certificate(pem).serialNumber;

async function listOf(issuer: typeof root, serialNumbers: readonly string[]) {
  const list = await x509.X509CrlGenerator.create({
    issuer: issuer.name,
    thisUpdate: now,
    entries: serialNumbers.map((serialNumber) => ({ serialNumber, revocationDate: now })),
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    signingKey: issuer.keys.privateKey,
  });
  return { name: "ca-crl.pem", text: x509.PemConverter.encode(list.rawData, "X509 CRL") };
}

test("refuses more intermediates than ztunnel verifies", async () => {
  const chain = [root];
  for (let i = 0; i < 7; i++) {
    chain.unshift(await createCa(`O=mesh,CN=${i}`, { issuer: chain[0] ?? root }));
  }
  const [low = root, ...above] = chain;
  const materialWith = (authority: typeof root, others: readonly (typeof root)[]) =>
    materialOf(authority, { chain: others.map(({ pem }) => pem).join(""), roots: root.pem });
  await requireRefused(materialWith(low, above), "has 7 intermediates; ztunnel verifies 6");
  const [next = root, ...others] = above;
  await verify(materialWith(next, others));
});

test("refuses an authority that the CRL names, or its issuer", async () => {
  const material = materialOf(authority, { chain: upper.pem, roots: root.pem });
  for (const [issuer, revoked] of [
    [upper, authority],
    [root, upper],
  ] as const) {
    const crl = await listOf(issuer, ["01", serialOf(revoked)]);
    await requireRefused({ ...material, crl }, "is revoked, says ca-crl.pem");
  }
  // The number is another CA's.
  const crl = await listOf(stranger, [serialOf(authority)]);
  await requireWarned({ ...material, crl }, "ca-crl.pem: is not imported");
  const bogus = { name: "ca-crl.pem", text: root.pem };
  await requireRefused({ ...material, crl: bogus }, "ca-crl.pem, CRL 1: failed to parse CRL PEM");
});

test("refuses a broken chain, and says where", async () => {
  const at = (file: string) =>
    new RegExp(`^${file}, certificate 1 .*cannot verify the cert.*no certificate has`);
  await requireRefused(materialOf(authority, { roots: root.pem }), at("ca-cert.pem"));
  const chained = { chain: upper.pem, roots: stranger.pem };
  await requireRefused(materialOf(authority, chained), at("cert-chain.pem"));
  // A root in the chain proposes itself; only the roots are trusted.
  const withRoot = { chain: upper.pem + root.pem, roots: stranger.pem };
  expect(await linesFor(materialOf(authority, withRoot))).toHaveLength(1);
  expect(await linesFor(materialOf(authority, { chain: upper.pem + root.pem }))).toHaveLength(1);
});

test("refuses an issuer with the right name that did not sign", async () => {
  const impostor = await createCa(root.name);
  const material = materialOf(upper, { roots: impostor.pem });
  await requireRefused(material, "has the name of its issuer, but did not sign");
});

test.each([
  ["a stranger", stranger],
  ["one of a root's name", await createCa(root.name)],
])("refuses a self-signed authority that is not among the roots: %s", async (_, ca) => {
  const material = materialOf(ca, { roots: root.pem });
  await requireRefused(material, /cannot verify the cert with the provided root|did not sign/);
});

test("refuses an authority key identifier that is not the issuer's", async () => {
  const subject = new x509.SubjectKeyIdentifierExtension("aabb");
  const issuer = await createCa("O=above", { extensions: [isCa(), maySign, subject] });
  const other = new x509.AuthorityKeyIdentifierExtension("ccdd");
  const ca = await createCa("O=below", { issuer, extensions: [isCa(), maySign, other] });
  const material = materialOf(ca, { roots: issuer.pem });
  await requireRefused(material, "its authority key identifier is not the issuer's");
});

test.each([
  ["the root", 0, undefined],
  ["the one above", undefined, 0],
])("refuses a chain longer than the path length of %s", async (_, topLength, middleLength) => {
  const below = (name: string, length: number | undefined, issuer?: typeof root) =>
    createCa(name, { extensions: [isCa(length), maySign], ...(issuer && { issuer }) });
  const top = await below("O=top", topLength);
  const middle = await below("O=middle", middleLength, top);
  const ca = await below("O=low", 0, middle);
  const material = materialOf(ca, { chain: middle.pem, roots: top.pem });
  await requireRefused(material, "its path length of 0 is less than");
});

test("refuses a weak hash below the root, and takes it in the root", async () => {
  const sha1Root = await createCa("O=sha1", { keys: sha1Keys, hash: "SHA-1" });
  await verify(materialOf(sha1Root));
  const ca = await createCa("O=below", { issuer: sha1Root, hash: "SHA-1" });
  await requireRefused(materialOf(ca, { roots: sha1Root.pem }), "is signed with SHA-1");
});

/** A certificate with one changed bit, for every thirteenth octet. */
function* withOctetsChanged({ pem }: typeof root): Generator<string> {
  const { rawData } = new x509.X509Certificate(pem);
  for (let i = 0; i < rawData.byteLength; i += 13) {
    const changed = new Uint8Array(rawData.slice(0));
    changed[i] = (changed[i] ?? 0) ^ (1 << (i % 8));
    yield x509.PemConverter.encode(changed, "CERTIFICATE");
  }
}

test("refuses a certificate with any changed octet by an OperatorError, never by a fault", async () => {
  for (const pem of withOctetsChanged(upper)) {
    const lines = await linesFor(materialOf({ ...upper, pem }, { roots: root.pem }));
    expect(lines.length).toBeGreaterThan(0);
  }
});

test("refuses a root with any changed octet, unless it names another issuer now", async () => {
  let refusals = 0;
  for (const pem of withOctetsChanged(root)) {
    const material = materialOf(stranger, { roots: stranger.pem + pem });
    const imported = await verify(material).catch((error: unknown) => error);
    if (imported instanceof OperatorError) refusals++;
    else {
      const { issuer, subject } = new X509Certificate(pem);
      expect(issuer).not.toBe(subject);
    }
  }
  expect(refusals).toBeGreaterThan(15);
});

test("takes an anchor that is not self-signed, with a warning, and refuses one that is no CA", async () => {
  const { certificates, warnings } = await verify(materialOf(authority, { roots: upper.pem }));
  expect(certificates.roots).toEqual([new Uint8Array(new X509Certificate(upper.pem).raw)]);
  expect(warnings).toEqual([expect.stringContaining("-partial_chain")]);
  const leaf = await createCa("O=leaf", { extensions: [maySign] });
  const withLeaf = materialOf(root, { roots: root.pem + leaf.pem });
  await requireRefused(withLeaf, /^root-cert.pem, certificate 2 .* is no CA/);
});

test("refuses a root that names itself as its issuer and has another signature", async () => {
  const forged = await createCa("O=forged", { issuer: { ...stranger, name: "O=forged" } });
  for (const material of [materialOf(forged), materialOf(root, { roots: root.pem + forged.pem })]) {
    await requireRefused(material, "did not sign itself");
  }
});
