import { createPublicKey, verify } from "node:crypto";
import { expect, test } from "vitest";
import { SignatureAlgorithm } from "../../../src/pki/signature-algorithm.ts";
import { webSigningKey } from "../../../src/pki/web-crypto.ts";
import { lintAndSign } from "../../../src/pki/x509/leaf/certificate-signer.ts";
import { lint } from "../../../src/pki/x509/leaf/internal/lint.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { contentOf, elementAt, flipBit, inHex } from "../../testkit/der/mutation.ts";
import { subjects } from "../../testkit/pki/lint-subjects.ts";

const keys = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, [
  "sign",
  "verify",
]);
const spki = Buffer.from(await crypto.subtle.exportKey("spki", keys.publicKey));
const algorithm = SignatureAlgorithm.of(SubjectPublicKey.parse(spki));
const signer = webSigningKey(keys.privateKey, algorithm);

const { toBeSigned, intent } = subjects.ec;

test("signs the very bytes that it linted", async () => {
  const certificate = Buffer.from(await lintAndSign(toBeSigned, intent, signer));
  expect(inHex(elementAt(certificate, [0]))).toBe(inHex(toBeSigned));
  const key = createPublicKey({ key: spki, format: "der", type: "spki" });
  const signature = contentOf(elementAt(certificate, [2]));
  expect(verify("sha256", toBeSigned, key, signature)).toBe(true);
});

test("refuses bytes that differ from the intent", async () => {
  const { issuer } = intent;
  const others = [
    { ...intent, spiffeId: "spiffe://cluster.local/ns/foo/sa/other" },
    { ...intent, publicKey: subjects.rsa.intent.publicKey },
    { ...intent, issuer: { ...issuer, name: toBeSigned.subarray(0, 2) } },
    { ...intent, issuer: { ...issuer, signatureAlgorithm: toBeSigned.subarray(0, 2) } },
    { ...intent, validity: { ...intent.validity, notAfter: new Date(0) } },
    {
      ...intent,
      issuer: { ...issuer, validity: { ...issuer.validity, notAfter: new Date(0) } },
    },
    { ...intent, issuer: { ...issuer, keyIdentifier: toBeSigned.subarray(0, 20) } },
    { ...intent, kind: "authority" as const },
  ];
  for (const other of others) {
    await expect(lintAndSign(toBeSigned, other, signer)).rejects.not.toHaveProperty("refusal");
  }
});

/** The bits that no clause fixes: those of the serial number. */
const free = [elementAt(toBeSigned, [1])].map((element) => {
  const start = element.byteOffset - toBeSigned.byteOffset + 2;
  return { start: start * 8, end: (start + element.length - 2) * 8 };
});
const isFree = (bit: number): boolean => free.some(({ start, end }) => start <= bit && bit < end);

test("finds any one bit changed outside of the serial number", () => {
  const missed: number[] = [];
  for (let bit = 0; bit < toBeSigned.length * 8; bit++) {
    if (isFree(bit)) continue;
    if (findsNothing(flipBit(toBeSigned, bit))) missed.push(bit >> 3);
  }
  expect(missed).toEqual([]);
});

function findsNothing(bytes: Buffer<ArrayBuffer>): boolean {
  return lint(bytes, intent).length === 0;
}
