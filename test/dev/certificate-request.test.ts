import { createPublicKey } from "node:crypto";
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { createWorkloadKey } from "../../dev/workload/certificate-request.ts";

const derOf = (pem: string) => Buffer.from(pem.replace(/-----[^-]+-----|\s/g, ""), "base64");

/** The end of the point and the start of the signature, which all P-256 CSRs for one identity share. */
const [pointAt, pointEnd, signatureAt] = [49, 114, 197];

test("makes the CSR of pilot-agent, with another key and signature", async () => {
  const vector = new URL("../vectors/csr/pilot-agent-p256.pem", import.meta.url);
  const expected = derOf(await readFile(vector, "utf8"));
  const { csrPem, privateKey } = await createWorkloadKey("spiffe://cluster.local/ns/foo/sa/bar");
  const spki = createPublicKey(privateKey).export({ type: "spki", format: "der" });
  const der = derOf(csrPem);
  expect(der.subarray(4, pointAt)).toEqual(expected.subarray(4, pointAt));
  expect(der.subarray(pointAt, pointEnd)).toEqual(spki.subarray(-65));
  expect(der.subarray(pointEnd, signatureAt)).toEqual(expected.subarray(pointEnd, signatureAt));
});

test("makes a new key each time", async () => {
  const spiffeId = "spiffe://cluster.local/ns/foo/sa/bar";
  const [one, other] = await Promise.all([
    createWorkloadKey(spiffeId),
    createWorkloadKey(spiffeId),
  ]);
  expect(one.privateKey.equals(other.privateKey)).toBe(false);
});
