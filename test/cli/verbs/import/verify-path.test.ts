import "reflect-metadata/lite";
import { X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import { verifyPluggedIn } from "../../../../src/cli/verbs/import/verify.ts";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import { clusterLocal } from "../../../testkit/pki/certificates.ts";
import {
  createCa,
  generateKeys,
  isCa,
  linesFor,
  materialOf,
  maySign,
  now,
  rsa,
} from "../../../testkit/pki/plugged-in.ts";

const root = await createCa("O=mesh,CN=root");
const upper = await createCa("O=mesh,CN=upper", { issuer: root });
const stranger = await createCa("O=stranger");
const sha1Keys = await generateKeys(rsa(2048, "SHA-1"));
const serialOf = ({ pem }: { readonly pem: string }) => new x509.X509Certificate(pem).serialNumber;

async function crlPem(issuer: typeof root, serialNumbers: readonly string[]) {
  const list = await x509.X509CrlGenerator.create({
    issuer: issuer.name,
    thisUpdate: now,
    entries: serialNumbers.map((serialNumber) => ({ serialNumber, revocationDate: now })),
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    signingKey: issuer.keys.privateKey,
  });
  return x509.PemConverter.encode(list.rawData, "X509 CRL");
}

test("refuses more intermediates than ztunnel verifies", async () => {
  const chain = [root];
  for (let i = 0; i < 7; i++) {
    chain.unshift(await createCa(`O=mesh,CN=${i}`, { issuer: chain[0] ?? root }));
  }
  const [low = root, ...above] = chain;
  const materialWith = (authority: typeof root, others: readonly (typeof root)[]) =>
    materialOf(authority, { chain: others.map(({ pem }) => pem).join(""), roots: root.pem });
  expect(await linesFor(materialWith(low, above))).toEqual([
    expect.stringContaining("has 7 intermediates; ztunnel verifies 6"),
  ]);
  const [next = root, ...others] = above;
  await verifyPluggedIn(materialWith(next, others), clusterLocal, now);
});

test("refuses an authority that the CRL names, or its issuer", async () => {
  const authority = await createCa("O=mesh,CN=authority", { issuer: upper });
  const material = materialOf(authority, { chain: upper.pem, roots: root.pem });
  const listOf = async (issuer: typeof root, revoked: readonly string[]) => ({
    name: "ca-crl.pem",
    text: await crlPem(issuer, revoked),
  });
  for (const [issuer, revoked] of [
    [upper, authority],
    [root, upper],
  ] as const) {
    const crl = await listOf(issuer, ["01", serialOf(revoked)]);
    expect(await linesFor({ ...material, crl })).toEqual([
      expect.stringContaining("is revoked, says ca-crl.pem"),
    ]);
  }
  // The number is another CA's.
  const crl = await listOf(stranger, [serialOf(authority)]);
  await verifyPluggedIn({ ...material, crl }, clusterLocal, now);
  const bogus = { name: "ca-crl.pem", text: root.pem };
  expect(await linesFor({ ...material, crl: bogus })).toEqual([
    "ca-crl.pem, CRL 1: failed to parse CRL PEM",
  ]);
});

test("refuses a broken chain, and says where", async () => {
  const authority = await createCa("O=mesh,CN=authority", { issuer: upper });
  const at = (title: string) =>
    new RegExp(`^${title} .*cannot verify the cert.*no certificate has`);
  expect(await linesFor(materialOf(authority, { roots: root.pem }))).toEqual([
    expect.stringMatching(at("ca-cert.pem, certificate 1")),
  ]);
  expect(await linesFor(materialOf(authority, { chain: upper.pem, roots: stranger.pem }))).toEqual([
    expect.stringMatching(at("cert-chain.pem, certificate 1")),
  ]);
  // A root in the chain proposes itself; only the roots are trusted.
  const withRoot = { chain: upper.pem + root.pem, roots: stranger.pem };
  expect(await linesFor(materialOf(authority, withRoot))).toHaveLength(1);
  expect(await linesFor(materialOf(authority, { chain: upper.pem + root.pem }))).toHaveLength(1);
});

test("refuses an issuer with the right name that did not sign", async () => {
  const impostor = await createCa(root.name);
  const lines = await linesFor(materialOf(upper, { roots: impostor.pem }));
  expect(lines).toEqual([expect.stringContaining("has the name of its issuer, but did not sign")]);
  expect(await linesFor(materialOf(impostor, { roots: root.pem }))).toHaveLength(1);
});

test("refuses a self-signed authority that is not among the roots", async () => {
  const lines = await linesFor(materialOf(stranger, { roots: root.pem }));
  expect(lines).toEqual([expect.stringContaining("cannot verify the cert with the provided root")]);
});

test("refuses an authority key identifier that is not the issuer's", async () => {
  const identified = await createCa("O=identified", {
    extensions: [isCa(), maySign, new x509.SubjectKeyIdentifierExtension("aabb")],
  });
  const ca = await createCa("O=below", {
    issuer: identified,
    extensions: [isCa(), maySign, new x509.AuthorityKeyIdentifierExtension("ccdd")],
  });
  expect(await linesFor(materialOf(ca, { roots: identified.pem }))).toEqual([
    expect.stringContaining("its authority key identifier is not the issuer's"),
  ]);
});

test("refuses a chain longer than its path lengths", async () => {
  for (const [rootLength, upperLength] of [
    [0, undefined],
    [undefined, 0],
  ]) {
    const top = await createCa("O=top", { extensions: [isCa(rootLength), maySign] });
    const middle = await createCa("O=middle", {
      issuer: top,
      extensions: [isCa(upperLength), maySign],
    });
    const ca = await createCa("O=low", { issuer: middle, extensions: [isCa(0), maySign] });
    const lines = await linesFor(materialOf(ca, { chain: middle.pem, roots: top.pem }));
    expect(lines).toEqual([expect.stringContaining("its path length of 0 is less than")]);
  }
});

test("refuses a weak hash below the root, and takes it in the root", async () => {
  const sha1Root = await createCa("O=sha1", { keys: sha1Keys, hash: "SHA-1" });
  await verifyPluggedIn(materialOf(sha1Root), clusterLocal, now);
  const ca = await createCa("O=below", { issuer: sha1Root, hash: "SHA-1" });
  expect(await linesFor(materialOf(ca, { roots: sha1Root.pem }))).toEqual([
    expect.stringContaining("is signed with SHA-1"),
  ]);
});

test("refuses a certificate with any changed octet by an OperatorError, never by a fault", async () => {
  const der = new x509.X509Certificate(upper.pem).rawData;
  for (let i = 0; i < der.byteLength; i += 7) {
    const pem = x509.PemConverter.encode(withOctetChanged(der, i), "CERTIFICATE");
    const material = materialOf({ ...upper, pem }, { roots: root.pem });
    expect((await linesFor(material)).length).toBeGreaterThan(0);
  }
});

test("refuses a root with any changed octet, unless it names another issuer now", async () => {
  const der = new x509.X509Certificate(root.pem).rawData;
  let refusals = 0;
  for (let i = 0; i < der.byteLength; i += 7) {
    const pem = x509.PemConverter.encode(withOctetChanged(der, i), "CERTIFICATE");
    const material = materialOf(stranger, { roots: stranger.pem + pem });
    try {
      await verifyPluggedIn(material, clusterLocal, now);
      const { issuer, subject } = new X509Certificate(pem);
      expect(issuer).not.toBe(subject);
    } catch (error) {
      expect(error).toBeInstanceOf(OperatorError);
      refusals++;
    }
  }
  expect(refusals).toBeGreaterThan(30);
});

function withOctetChanged(der: ArrayBuffer, i: number): Uint8Array<ArrayBuffer> {
  const changed = new Uint8Array(der.slice(0));
  changed[i] = (changed[i] ?? 0) ^ (1 << (i % 8));
  return changed;
}

test("takes an anchor that is not self-signed, with a warning, and refuses one that is no CA", async () => {
  const authority = await createCa("O=mesh,CN=authority", { issuer: upper });
  const { certificates, warnings } = await verifyPluggedIn(
    materialOf(authority, { roots: upper.pem }),
    clusterLocal,
    now,
  );
  expect(certificates.roots).toEqual([new Uint8Array(new X509Certificate(upper.pem).raw)]);
  expect(warnings).toEqual([expect.stringContaining("-partial_chain")]);
  const leaf = await createCa("O=leaf", { extensions: [maySign] });
  expect(await linesFor(materialOf(root, { roots: root.pem + leaf.pem }))).toEqual([
    expect.stringMatching(/^root-cert.pem, certificate 2 .* is no CA/),
  ]);
});

test("refuses a root that names itself as its issuer and has another signature", async () => {
  const forged = await createCa("O=forged", { issuer: { ...stranger, name: "O=forged" } });
  for (const material of [materialOf(forged), materialOf(root, { roots: root.pem + forged.pem })]) {
    expect(await linesFor(material)).toEqual([expect.stringContaining("did not sign itself")]);
  }
});
