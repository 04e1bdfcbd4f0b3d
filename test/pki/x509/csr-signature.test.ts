import { sign } from "node:crypto";
import { expect, test } from "vitest";
import {
  childrenOf,
  contentOf,
  der,
  derInteger,
  hex,
  inHex,
  type Octets,
} from "../../testkit/der/mutation.ts";
import {
  buildCsr,
  type CsrDepartures,
  type CsrSigner,
  csrPem,
  generateSigner,
  type SignatureName,
  type SignerKind,
  signatureIdentifier,
} from "../../testkit/pki/csr.ts";
import { parseCsr } from "../../testkit/pki/csr-parsing.ts";
import { refusalOf } from "../../testkit/refusal.ts";

const kinds: readonly SignerKind[] = [
  "EC-P256",
  "EC-P384",
  "EC-P521",
  "RSA-2048",
  "RSA-3072",
  "Ed25519",
];
const signers = Object.fromEntries(kinds.map((kind) => [kind, generateSigner(kind)])) as Record<
  SignerKind,
  CsrSigner
>;

const parse = (signer: CsrSigner, departures: CsrDepartures = {}) =>
  parseCsr(csrPem(buildCsr(signer, departures)));

const refusal = (signer: CsrSigner, departures: CsrDepartures) =>
  refusalOf(() => parse(signer, departures));

const invalid = { reason: "csr-signature-invalid" };
const malformed = { reason: "csr-malformed" };
const unacceptable = { reason: "csr-signature-algorithm-unacceptable" };

test.each(kinds)("accepts the signature of the %s key itself", async (kind) => {
  expect(inHex((await parse(signers[kind])).spki)).toBe(inHex(signers[kind].spki));
});

test.each(kinds)("refuses a CSR that another %s key signed", async (kind) => {
  const { spki } = kind.startsWith("RSA") ? signers["RSA-2048"] : generateSigner(kind);
  const signer = kind === "RSA-2048" ? signers["RSA-3072"] : signers[kind];
  expect(await refusal(signer, { spki })).toEqual(invalid);
});

test.each(kinds)("refuses a signature of the %s key over another request", async (kind) => {
  const signer = signers[kind];
  const signature = () => sign(signer.hash, buildCsr(signer), signer.privateKey);
  expect(await refusal(signer, { signature })).toEqual(invalid);
});

const hashingKinds = kinds.filter((kind) => kind !== "Ed25519");

test.each(hashingKinds)(
  "refuses a %s signature that names another hash than it used",
  async (kind) => {
    const signer = signers[kind];
    const other = kind.startsWith("EC") ? "ecdsa-with-SHA512" : "sha512WithRSAEncryption";
    expect(await refusal(signer, { identifier: signatureIdentifier[other] })).toEqual(invalid);
  },
);

test.each(["RSA-2048", "Ed25519"] as const)(
  "refuses a %s signature of another length",
  async (kind) => {
    const cut = (octets: Octets): Octets => octets.subarray(0, -1);
    const longer = (octets: Octets): Octets => Buffer.concat([octets, hex("00")]);
    const zeroFirst = (octets: Octets): Octets => Buffer.concat([hex("00"), octets]);
    for (const signature of [cut, longer, zeroFirst, () => hex(""), () => Buffer.alloc(1024, 1)]) {
      expect(await refusal(signers[kind], { signature })).toEqual(invalid);
    }
  },
);

test("refuses an Ed25519 signature whose scalar was not reduced (RFC 8032 §5.1.7)", async () => {
  const order = 2n ** 252n + 27742317777372353535851937790883648493n;
  const notReduced = (octets: Octets): Octets => {
    const scalar =
      BigInt(`0x${Buffer.from(octets.subarray(32)).reverse().toString("hex")}`) + order;
    const bigEndian = scalar.toString(16).padStart(64, "0");
    return Buffer.concat([octets.subarray(0, 32), hex(bigEndian).reverse()]);
  };
  expect(await refusal(signers.Ed25519, { signature: notReduced })).toEqual(invalid);
});

const foreign: readonly [SignerKind, SignatureName, string | null][] = [
  ["EC-P256", "ecdsa-with-SHA1", "sha1"],
  ["EC-P256", "ecdsa-with-SHA224", "sha224"],
  ["EC-P256", "sha256WithRSAEncryption", "sha256"],
  ["EC-P384", "Ed25519", "sha384"],
  ["RSA-2048", "md5WithRSAEncryption", "md5"],
  ["RSA-2048", "sha1WithRSAEncryption", "sha1"],
  ["RSA-2048", "sha224WithRSAEncryption", "sha224"],
  ["RSA-2048", "RSASSA-PSS with SHA-256", "sha256"],
  ["RSA-2048", "ecdsa-with-SHA256", "sha256"],
  ["Ed25519", "ecdsa-with-SHA256", null],
  ["Ed25519", "sha256WithRSAEncryption", null],
];

test.each(foreign)("refuses a CSR of an %s key signed with %s", async (kind, name, hash) => {
  const signer = { ...signers[kind], hash };
  const identifier = signatureIdentifier[name];
  expect(await refusal(signer, { identifier })).toEqual(unacceptable);
});

test.each([
  ["an unknown algorithm", "3006 0604 2a030405"],
  ["the OID of the key for an algorithm", "3009 0607 2a8648ce3d0201"],
  ["SM2 with SM3", "300a 0608 2a811ccf55018375"],
])("refuses %s", async (_, identifier) => {
  const refused = await refusal(signers["EC-P256"], { identifier: hex(identifier) });
  expect(refused).toEqual(unacceptable);
});

interface Scalars {
  readonly r: bigint;
  readonly s: bigint;
}

/** The signature rebuilt from its two integers. */
const fromScalars =
  (rebuild: (scalars: Scalars) => Octets) =>
  (signature: Octets): Octets => {
    const [r = 0n, s = 0n] = childrenOf(signature).map((integer) =>
      BigInt(`0x${inHex(contentOf(integer))}`),
    );
    return rebuild({ r, s });
  };

const pair = (r: bigint, s: bigint): Octets => der(0x30, derInteger(r), derInteger(s));
const fixed = (value: bigint): Octets => hex(value.toString(16).padStart(64, "0"));
const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

test("accepts an ECDSA signature rebuilt from its integers", async () => {
  const signature = fromScalars(({ r, s }) => pair(r, s));
  expect(await parse(signers["EC-P256"], { signature })).toMatchObject({ algorithm: "EC-P256" });
});

const wrongScalars: Record<string, (scalars: Scalars) => Octets> = {
  "r of zero": ({ s }) => pair(0n, s),
  "s of zero": ({ r }) => pair(r, 0n),
  "two zeros": () => pair(0n, 0n),
  "r and s exchanged": ({ r, s }) => pair(s, r),
  "s of the group's order": ({ r }) => pair(r, order),
};

test.each(Object.entries(wrongScalars))(
  "refuses an ECDSA signature with %s",
  async (_, rebuild) => {
    const signature = fromScalars(rebuild);
    expect(await refusal(signers["EC-P256"], { signature })).toEqual(invalid);
  },
);

test("refuses an ECDSA signature with the order of P-521 added to s", async () => {
  const p521Order =
    (1n << 521n) - 0x5ae79787c40d069948033feb708f65a2fc44a36477663b851449048e16ec79bf7n;
  const signature = fromScalars(({ r, s }) => pair(r, s + p521Order));
  expect(await refusal(signers["EC-P521"], { signature })).toEqual(invalid);
});

const malformedSignatures: Record<string, (scalars: Scalars) => Octets> = {
  "a negative r": ({ r, s }) => der(0x30, der(0x02, fixed(r | (1n << 255n))), derInteger(s)),
  "a negative s": ({ r, s }) => der(0x30, derInteger(r), der(0x02, fixed(s | (1n << 255n)))),
  "an r larger than the curve": ({ r, s }) => pair(r + (1n << 256n), s),
  "an s larger than the curve": ({ r, s }) => pair(r, s + (1n << 256n)),
  "an r of a thousand octets": ({ s }) => pair((1n << 8000n) - 1n, s),
  "a zero before r": ({ r, s }) => der(0x30, der(0x02, hex("0000"), fixed(r)), derInteger(s)),
  "a zero before s": ({ r, s }) => der(0x30, derInteger(r), der(0x02, hex("0000"), fixed(s))),
  "an r without content": ({ s }) => der(0x30, hex("0200"), derInteger(s)),
  "a third integer": ({ r, s }) => der(0x30, derInteger(r), derInteger(s), derInteger(1n)),
  "no s": ({ r }) => der(0x30, derInteger(r)),
  "no integers": () => hex("3000"),
  "octets after the SEQUENCE": ({ r, s }) => Buffer.concat([pair(r, s), hex("00")]),
  "a SET in place of the SEQUENCE": ({ r, s }) => der(0x31, derInteger(r), derInteger(s)),
  "an indefinite length": ({ r, s }) =>
    Buffer.concat([hex("3080"), derInteger(r), derInteger(s), hex("0000")]),
  "a length in the long form": ({ r, s }) => Buffer.concat([hex("3081"), pair(r, s).subarray(1)]),
  "WebCrypto's r || s": ({ r, s }) => Buffer.concat([fixed(r), fixed(s)]),
  nothing: () => hex(""),
};

test.each(Object.entries(malformedSignatures))(
  "refuses an ECDSA signature with %s",
  async (_, rebuild) => {
    const signature = fromScalars(rebuild);
    expect(await refusal(signers["EC-P256"], { signature })).toEqual(malformed);
  },
);
