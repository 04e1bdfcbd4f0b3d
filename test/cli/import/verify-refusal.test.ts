import "reflect-metadata/lite";
import { createPrivateKey, generateKeyPairSync, X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import type { PluggedInMaterial } from "../../../src/cli/import/plugged-in-material.ts";
import { verifyPluggedIn } from "../../../src/cli/import/verify.ts";
import { OperatorError } from "../../../src/foundation/operator-error.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import {
  type CaDepartures,
  createCa,
  generateKeys,
  isCa,
  materialOf,
  maySign,
  now,
  operatorErrorOf,
  rsa,
} from "../../testkit/pki/plugged-in.ts";

const root = await createCa("O=mesh,CN=root");
const upper = await createCa("O=mesh,CN=upper", { issuer: root });
const stranger = await createCa("O=stranger");

const linesFor = (material: PluggedInMaterial) =>
  operatorErrorOf(() => verifyPluggedIn(material, clusterLocal, now));

const uriName = (value: string) =>
  new x509.SubjectAlternativeNameExtension([{ type: "url", value }]);
const { serverAuth, clientAuth } = x509.ExtendedKeyUsage;
/** GeneralNames with a registeredID. */
const registeredIdName = new Uint8Array([0x30, 0x05, 0x88, 0x03, 0x2a, 0x03, 0x04]);
const rsaRoot = await createCa("O=rsa", { keys: await generateKeys(rsa(2048)) });
const sha1Keys = await generateKeys(rsa(2048, "SHA-1"));

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

const fromHex = (hex: string) => Buffer.from(hex, "hex");
const extended = (value: string) => new x509.Extension("2.5.29.37", false, fromHex(value));
const serialOf = ({ pem }: { readonly pem: string }) => new x509.X509Certificate(pem).serialNumber;

async function revocationListPem(issuer: typeof root, serialNumbers: readonly string[]) {
  const list = await x509.X509CrlGenerator.create({
    issuer: issuer.name,
    thisUpdate: now,
    entries: serialNumbers.map((serialNumber) => ({ serialNumber, revocationDate: now })),
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    signingKey: issuer.keys.privateKey,
  });
  return x509.PemConverter.encode(list.rawData, "X509 CRL");
}

const constraints = (hex: string) => new x509.Extension("2.5.29.30", true, Buffer.from(hex, "hex"));
const ia5 = (text: string) => `86${octet(text.length)}${Buffer.from(text).toString("hex")}`;
const octet = (number: number) => number.toString(16).padStart(2, "0");
const tagged = (tag: string, content: string) => `${tag}${octet(content.length / 2)}${content}`;
const subtrees = (tag: string, ...hosts: readonly string[]) =>
  tagged("30", tagged(tag, hosts.map((host) => tagged("30", ia5(host))).join("")));
const permitted = (...hosts: readonly string[]) => constraints(subtrees("a0", ...hosts));
const excluded = (...hosts: readonly string[]) => constraints(subtrees("a1", ...hosts));

test.for([
  ["another host", permitted("elsewhere.test")],
  ["a host above, as only Go reads it", permitted("local")],
  ["hosts below", permitted(".cluster.local")],
  ["the host excluded", excluded("other.test", "cluster.local")],
  ["a host above excluded", excluded("local")],
  ["hosts below a label excluded", excluded(".local")],
  ["everything excluded", excluded("")],
  ["upper case excluded", excluded("CLUSTER.local")],
] as const)("refuses name constraints that exclude the trust domain: %s", async ([, extension]) => {
  const ca = await createCa("O=constrained", { extensions: [isCa(), maySign, extension] });
  const leading = await createCa("O=below", { issuer: ca });
  for (const material of [materialOf(ca), materialOf(leading, { roots: ca.pem })]) {
    const lines = await linesFor(material);
    expect(lines).toEqual([
      expect.stringContaining("name constraints exclude the trust domain cluster.local"),
    ]);
  }
});

test.each([
  ["name constraints that are cut off", constraints("3003a00130")],
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
  ["what is no NameConstraints", constraints("0500")],
  ["what is cut off", constraints("3003a00130")],
  ["no subtree", constraints("3000")],
  ["an empty list of subtrees", constraints("3002a000")],
  ["a minimum", constraints(tagged("30", tagged("a0", tagged("30", `${ia5("local")}800101`))))],
  ["a host that is no ASCII", constraints(tagged("30", tagged("a0", tagged("30", "8602c3a4"))))],
  [
    "a range of five octets",
    constraints(tagged("30", tagged("a0", tagged("30", "87050a000000ff")))),
  ],
] as const)("refuses name constraints with %s", async ([, extension]) => {
  const ca = await createCa("O=constrained", { extensions: [isCa(), maySign, extension] });
  expect(await linesFor(materialOf(ca))).toEqual([
    expect.stringContaining("not a certificate that verifiers agree on"),
  ]);
});

test("refuses a critical constraint on directory names alone, and takes it where Go does", async () => {
  const directory = tagged("a4", tagged("30", tagged("31", tagged("30", "0603550403" + "0c0178"))));
  const value = Buffer.from(tagged("30", tagged("a0", tagged("30", directory))), "hex");
  const caWith = (isCritical: boolean) =>
    createCa("O=constrained", {
      extensions: [isCa(), maySign, new x509.Extension("2.5.29.30", isCritical, value)],
    });
  expect(await linesFor(materialOf(await caWith(true)))).toEqual([
    expect.stringContaining("about directory names or names of rare kinds, which Go refuses"),
  ]);
  await verifyPluggedIn(materialOf(await caWith(false)), clusterLocal, now);
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

test("refuses an authority that the revocation list names, or its issuer", async () => {
  const authority = await createCa("O=mesh,CN=authority", { issuer: upper });
  const material = materialOf(authority, { chain: upper.pem, roots: root.pem });
  const listOf = async (issuer: typeof root, revoked: readonly string[]) => ({
    name: "ca-crl.pem",
    text: await revocationListPem(issuer, revoked),
  });
  for (const [issuer, revoked] of [
    [upper, authority],
    [root, upper],
  ] as const) {
    const revocationList = await listOf(issuer, ["01", serialOf(revoked)]);
    expect(await linesFor({ ...material, revocationList })).toEqual([
      expect.stringContaining("is revoked, says ca-crl.pem"),
    ]);
  }
  // The number is another CA's.
  const revocationList = await listOf(stranger, [serialOf(authority)]);
  await verifyPluggedIn({ ...material, revocationList }, clusterLocal, now);
  const bogus = { name: "ca-crl.pem", text: root.pem };
  expect(await linesFor({ ...material, revocationList: bogus })).toEqual([
    "ca-crl.pem, CRL 1: failed to parse CRL PEM",
  ]);
});

test.for([
  ["the host", permitted("other.test", "cluster.local"), "ztunnel refuses every"],
  ["hosts below local", permitted(".local"), "ztunnel refuses every"],
  [
    "another host excluded",
    excluded("elsewhere.test", ".cluster.local"),
    "ztunnel and GnuTLS refuse",
  ],
  ["DNS names", constraints("3010a00e300c820a6578616d706c652e6f72"), "on DNS names"],
  ["IP addresses", constraints("300ea00c300a87080a000000ff000000"), "no certificate of Rampart"],
] as const)("warns of name constraints that admit it: %s", async ([, extension, sentence]) => {
  const ca = await createCa("O=constrained", { extensions: [isCa(), maySign, extension] });
  const { warnings } = await verifyPluggedIn(materialOf(ca), clusterLocal, now);
  expect(warnings).toEqual([expect.stringContaining(sentence)]);
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

test("refuses keys that no authority may have", async () => {
  const weak = await createCa("O=weak", { keys: await generateKeys(rsa(1024)) });
  expect(await linesFor(materialOf(weak))).toEqual([expect.stringContaining("(modulus)")]);
  expect(await linesFor(materialOf(root, { roots: root.pem + weak.pem }))).toEqual([
    expect.stringMatching(/^root-cert.pem, certificate 2: .*\(modulus\)/),
  ]);
  const exponent3 = { ...rsa(2048), publicExponent: new Uint8Array([3]) };
  const exponent = await createCa("O=three", { keys: await generateKeys(exponent3) });
  expect(await linesFor(materialOf(exponent))).toEqual([expect.stringContaining("(exponent)")]);
});

test("refuses the key of another certificate, of the same kind and of another", async () => {
  for (const { keyPem } of [stranger, rsaRoot]) {
    const lines = await linesFor(materialOf({ pem: root.pem, keyPem }));
    expect(lines).toEqual([expect.stringContaining("ca-key.pem: the cert does not match the key")]);
  }
});

test("refuses a key that only claims the certificate's public key", async () => {
  const jwk = await crypto.subtle.exportKey("jwk", root.keys.privateKey);
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const { d } = privateKey.export({ format: "jwk" });
  const forged = createPrivateKey({ key: { ...jwk, d } as never, format: "jwk" });
  const keyPem = forged.export({ type: "pkcs8", format: "pem" }).toString();
  const lines = await linesFor(materialOf({ pem: root.pem, keyPem }));
  expect(lines).toEqual([expect.stringContaining("its numbers contradict each other")]);
});

test("refuses an RSA key whose primes are not its modulus's", async () => {
  const jwkOf = ({ privateKey }: CryptoKeyPair) => crypto.subtle.exportKey("jwk", privateKey);
  const [{ n, e }, other] = [await jwkOf(rsaRoot.keys), await jwkOf(await generateKeys(rsa(2048)))];
  const forged = createPrivateKey({ key: { ...other, n, e } as never, format: "jwk" });
  const keyPem = forged.export({ type: "pkcs1", format: "pem" }).toString();
  const lines = await linesFor(materialOf({ pem: rsaRoot.pem, keyPem }));
  expect(lines).toEqual([expect.stringContaining("its numbers contradict each other")]);
});

test("repeats no control characters of a subject", async () => {
  const name = "O=\u001b[2Jevil\u202e\u0007";
  const lines = await linesFor(materialOf(await createCa(name, { issuer: stranger })));
  expect(lines).toEqual([expect.stringContaining("(O=?[2Jevil?)")]);
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

test("refuses a key with any changed octet, or reads the same key", async () => {
  for (const ca of [root, rsaRoot]) {
    const der = await crypto.subtle.exportKey("pkcs8", ca.keys.privateKey);
    const same = Buffer.from(der).toString("base64");
    for (let i = 0; i < der.byteLength; i += ca === root ? 2 : 29) {
      const changed = new Uint8Array(der.slice(0));
      changed[i] = (changed[i] ?? 0) ^ (1 << (i % 8));
      const keyPem = x509.PemConverter.encode(changed, "PRIVATE KEY");
      expect([same, "refused"]).toContain(await keyOrRefusal({ pem: ca.pem, keyPem }));
    }
  }
});

async function keyOrRefusal(ca: { readonly pem: string; readonly keyPem: string }) {
  try {
    const { privateKey } = await verifyPluggedIn(materialOf(ca), clusterLocal, now);
    return Buffer.from(await crypto.subtle.exportKey("pkcs8", privateKey)).toString("base64");
  } catch (error) {
    if (error instanceof OperatorError) return "refused";
    throw error;
  }
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
