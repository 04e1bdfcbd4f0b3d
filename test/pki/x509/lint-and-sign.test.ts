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
  const other = { ...intent, spiffeId: "spiffe://cluster.local/ns/foo/sa/other" };
  await expect(lintAndSign(toBeSigned, other, signer)).rejects.not.toHaveProperty("refusal");
});

test("finds any one bit changed outside of the serial number", () => {
  const serialNumber = elementAt(toBeSigned, [1]);
  const first = serialNumber.byteOffset - toBeSigned.byteOffset + 2;
  const last = first + serialNumber.length - 2;
  const missed: number[] = [];
  for (let bit = 0; bit < toBeSigned.length * 8; bit++) {
    const isFree = bit >> 3 >= first && bit >> 3 < last;
    if (!isFree && lint(flipBit(toBeSigned, bit), intent).length === 0) missed.push(bit >> 3);
  }
  expect(missed).toEqual([]);
});
