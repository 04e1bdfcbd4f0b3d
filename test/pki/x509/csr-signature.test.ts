import { sign } from "node:crypto";
import { expect, test } from "vitest";
import { childrenOf, der, hex, inHex, type Octets } from "../../testkit/der/mutation.ts";
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

// `public-vectors.test.ts` has many more, for the same verification.
test.each<[string, (signature: Octets) => Octets, object]>([
  ["r and s exchanged", (pair) => der(0x30, ...childrenOf(pair).toReversed()), invalid],
  ["octets after the SEQUENCE", (pair) => Buffer.concat([pair, hex("00")]), malformed],
  ["WebCrypto's r || s", () => Buffer.alloc(64, 1), malformed],
  ["nothing", () => hex(""), malformed],
])("refuses an ECDSA signature with %s", async (_, signature, reason) => {
  expect(await refusal(signers["EC-P256"], { signature })).toEqual(reason);
});
