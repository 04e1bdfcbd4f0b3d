import "reflect-metadata/lite";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import { verifyPluggedIn } from "../../../../src/cli/verbs/import/verify.ts";
import { clusterLocal } from "../../../testkit/pki/certificates.ts";
import {
  type CaDepartures,
  createCa,
  isCa,
  linesFor,
  materialOf,
  maySign,
  now,
} from "../../../testkit/pki/plugged-in.ts";

const root = await createCa("O=mesh,CN=root");
const upper = await createCa("O=mesh,CN=upper", { issuer: root });
const stranger = await createCa("O=stranger");

const uriName = (value: string) =>
  new x509.SubjectAlternativeNameExtension([{ type: "url", value }]);
const { serverAuth, clientAuth } = x509.ExtendedKeyUsage;
/** GeneralNames with a registeredID. */
const registeredIdName = new Uint8Array([0x30, 0x05, 0x88, 0x03, 0x2a, 0x03, 0x04]);

const fromHex = (hex: string) => Buffer.from(hex, "hex");
const extended = (value: string) => new x509.Extension("2.5.29.37", false, fromHex(value));

test.for<[string, CaDepartures, string]>([
  ["no CA", { extensions: [maySign] }, "not authorized to sign other certificates: it is no CA"],
  [
    "CA:false",
    { extensions: [new x509.BasicConstraintsExtension(false), maySign] },
    "not authorized to sign other certificates: it is no CA",
  ],
  [
    "no keyCertSign",
    { extensions: [isCa(), new x509.KeyUsagesExtension(x509.KeyUsageFlags.cRLSign)] },
    "no keyCertSign",
  ],
  ["an end in the past", { notAfter: new Date(now.getTime() - 1000) }, "has expired at 2026-05-31"],
  ["an end at this instant", { notAfter: now }, "has expired"],
  ["a beginning to come", { notBefore: new Date(now.getTime() + 1000) }, "is not valid before"],
  [
    "serverAuth only",
    { extensions: [isCa(), maySign, new x509.ExtendedKeyUsageExtension([serverAuth])] },
    "extended key usage",
  ],
  [
    "clientAuth only",
    { extensions: [isCa(), maySign, new x509.ExtendedKeyUsageExtension([clientAuth], true)] },
    "extended key usage",
  ],
  [
    "an unknown critical extension",
    { extensions: [isCa(), maySign, new x509.Extension("1.2.3.4", true, new Uint8Array([5, 0]))] },
    "critical extension 1.2.3.4",
  ],
  [
    "a SPIFFE ID of another trust domain",
    { extensions: [isCa(), maySign, uriName("spiffe://cluster.local.evil.test")] },
    "another trust domain than cluster.local",
  ],
  [
    "critical names of which Go reads none",
    { extensions: [isCa(), maySign, new x509.Extension("2.5.29.17", true, registeredIdName)] },
    "critical names of rare kinds alone, which Go refuses",
  ],
  ["no subject", {}, "has no subject"],
])("refuses an authority with %s", async ([name, departures, sentence]) => {
  const subject = name === "no subject" ? "" : "O=departing";
  const ca = await createCa(subject, { issuer: root, ...departures });
  const lines = await linesFor(materialOf(ca, { roots: root.pem }));
  expect(lines).toEqual([expect.stringContaining(sentence)]);
  expect(lines[0]).toMatch(/^ca-cert\.pem, certificate 1 \(/);
});

test.each([
  [
    "name constraints that are cut off",
    new x509.Extension("2.5.29.30", true, fromHex("3003a00130")),
  ],
  [
    "basic constraints of two values",
    new x509.Extension("2.5.29.19", true, Buffer.from("30030101ff0500", "hex")),
  ],
  ["a URI that is none", uriName("spiffe://a b")],
  [
    "policies that are not DER",
    new x509.Extension("2.5.29.32", false, new Uint8Array([0x30, 0x80])),
  ],
])(
  "refuses %s in an authority and in a root, because some verifiers cannot read it",
  async (_, extension) => {
    const others = extension.type === "2.5.29.19" ? [maySign] : [isCa(), maySign];
    const ca = await createCa("O=unreadable", { extensions: [...others, extension] });
    for (const material of [materialOf(ca), materialOf(root, { roots: root.pem + ca.pem })]) {
      expect(await linesFor(material)).toEqual([
        expect.stringContaining("not a certificate that verifiers agree on"),
      ]);
    }
  },
);

test("refuses a root whose key usage OpenSSL does not read", async () => {
  const keyUsage = new x509.Extension("2.5.29.15", true, new Uint8Array([0x05, 0x00]));
  const ca = await createCa("O=unreadable", { extensions: [isCa(), keyUsage] });
  expect(await linesFor(materialOf(root, { roots: root.pem + ca.pem }))).toEqual([
    expect.stringContaining("root-cert.pem, certificate 2"),
  ]);
});

test.for([
  ["another usage", extended("300606042a030405"), "extended key usage"],
  ["only anyExtendedKeyUsage", extended("30060604551d2500"), "anyExtendedKeyUsage does not count"],
  [
    "critical policies",
    new x509.Extension("2.5.29.32", true, fromHex("3006300406022a03")),
    "critical certificate policies",
  ],
  [
    "an explicit policy",
    new x509.Extension("2.5.29.36", false, fromHex("3003800100")),
    "requires an explicit policy",
  ],
  [
    "names that do not parse",
    new x509.Extension("2.5.29.17", false, fromHex("3003820180")),
    "not a certificate that verifiers agree on",
  ],
  [
    "no name",
    new x509.Extension("2.5.29.17", false, fromHex("3000")),
    "not a certificate that verifiers agree on",
  ],
  [
    "a URI without a scheme",
    new x509.Extension("2.5.29.17", false, fromHex("3003860161")),
    "not a certificate that verifiers agree on",
  ],
  [
    "an IP address of three octets",
    new x509.Extension("2.5.29.17", false, fromHex("30058703010203")),
    "not a certificate that verifiers agree on",
  ],
  ["usages that do not parse", extended("3000"), "not a certificate that verifiers agree on"],
  [
    "policies that do not parse",
    new x509.Extension("2.5.29.32", false, fromHex("0500")),
    "not a certificate that verifiers agree on",
  ],
] as const)("refuses an intermediate with %s", async ([, extension, sentence]) => {
  const ca = await createCa("O=low", { issuer: root, extensions: [isCa(), maySign, extension] });
  expect(await linesFor(materialOf(ca, { roots: root.pem }))).toEqual([
    expect.stringContaining(sentence),
  ]);
});

test("refuses an intermediate without key usage, and warns of a root without", async () => {
  const bare = await createCa("O=bare root", { extensions: [isCa()] });
  const below = await createCa("O=below", { issuer: bare });
  const { warnings } = await verifyPluggedIn(
    materialOf(below, { roots: bare.pem }),
    clusterLocal,
    now,
  );
  expect(warnings).toEqual([expect.stringContaining("Python 3.13 refuse it")]);
  const ca = await createCa("O=low", { issuer: root, extensions: [isCa()] });
  expect(await linesFor(materialOf(ca, { roots: root.pem }))).toEqual([
    expect.stringContaining("has no key usage"),
  ]);
});

test.for([
  ["padded with zero bits", "0303000600"],
  ["without a bit", "030100"],
  ["with more unused bits than there are", "03020906"],
] as const)("refuses key usage %s", async ([, value]) => {
  const usage = new x509.Extension("2.5.29.15", true, fromHex(value));
  const ca = await createCa("O=low", { issuer: root, extensions: [isCa(), usage] });
  expect(await linesFor(materialOf(ca, { roots: root.pem }))).toEqual([
    expect.stringContaining("not a certificate that verifiers agree on"),
  ]);
});

test("refuses a negative serial number, and one of 21 octets below the root", async () => {
  // Nobody verifies the signature of an anchor, so that one octet can be changed.
  const der = new Uint8Array(new x509.X509Certificate(upper.pem).rawData);
  der[der.findIndex((octet, i) => octet === 0x02 && der[i + 1] === 9) + 2] = 0x81;
  const negative = { ...upper, pem: x509.PemConverter.encode(der, "CERTIFICATE") };
  expect(await linesFor(materialOf(negative))).toEqual([
    expect.stringContaining("a negative serial number"),
  ]);
  const long = await createCa("O=low", { issuer: root, serialNumber: "01".repeat(21) });
  expect(await linesFor(materialOf(long, { roots: root.pem }))).toEqual([
    expect.stringContaining("more than 20 octets"),
  ]);
  const longRoot = await createCa("O=long", { serialNumber: "01".repeat(21) });
  await verifyPluggedIn(materialOf(longRoot), clusterLocal, now);
});

test("repeats no control characters of a subject", async () => {
  const name = "O=\u001b[2Jevil\u202e\u0007";
  const lines = await linesFor(materialOf(await createCa(name, { issuer: stranger })));
  expect(lines).toEqual([expect.stringContaining("(O=?[2Jevil?)")]);
});

test("refuses more than eight certificates in a file, and more than eight roots in all", async () => {
  const nine = root.pem.repeat(9);
  expect(await linesFor(materialOf(root, { roots: nine }))).toEqual([
    "root-cert.pem: holds 9 certificates; the limit is 8",
  ]);
  const others = await Promise.all(Array.from({ length: 8 }, (_, i) => createCa(`O=${i}`)));
  const material = materialOf(root, { roots: root.pem });
  const combined = { name: "combined.pem", text: others.map(({ pem }) => pem).join("") };
  expect(await linesFor({ ...material, roots: [...material.roots, combined] })).toEqual([
    "root-cert.pem and combined.pem: hold 9 roots; the limit is 8",
  ]);
});

test("refuses a file of certificates that holds anything else, or none", async () => {
  const [label] = await linesFor(materialOf({ ...root, pem: root.pem + root.keyPem }));
  expect(label).toBe("ca-cert.pem: failed to parse cert PEM: holds a block of PRIVATE KEY");
  expect(await linesFor(materialOf({ ...root, pem: "certificate" }))).toEqual([
    "ca-cert.pem: failed to parse cert PEM: there is no certificate",
  ]);
  const bogus = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
  expect(await linesFor(materialOf(root, { chain: bogus }))).toEqual([
    expect.stringContaining("cert-chain.pem, certificate 1: failed to parse cert PEM"),
  ]);
});

test("reports every fault at once, each line with its file", async () => {
  const material = materialOf({ pem: "x", keyPem: "y" }, { chain: "z", roots: "r" });
  const lines = await linesFor(material);
  const files = lines.map((line) => line.split(/[:,]/)[0]);
  expect(files).toEqual(["ca-cert.pem", "cert-chain.pem", "root-cert.pem", "ca-key.pem"]);
});

test.each<[string, CaDepartures]>([
  ["without basicConstraints", { extensions: [maySign] }],
  ["without any extension", { extensions: [], lacksKeyIdentifiers: true }],
  ["that says it is none", { extensions: [new x509.BasicConstraintsExtension(false), maySign] }],
])("a root of version 3 %s is no CA", async (_, departures) => {
  const bare = await createCa("O=mesh,CN=bare", departures);
  const ca = await createCa("O=mesh", { issuer: bare });
  const lines = await linesFor(materialOf(ca, { chain: ca.pem, roots: bare.pem }));
  expect(lines).toEqual([expect.stringMatching(/is no CA, so it is no root$/)]);
});
