import "reflect-metadata/lite";
import { X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import { hex } from "../../../testkit/der/mutation.ts";
import {
  type CaDepartures,
  createCa,
  isCa,
  materialOf,
  maySign,
  type TestCa,
} from "../../../testkit/pki/plugged-in.ts";
import { requireWarned, verify } from "./verifying.ts";

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
