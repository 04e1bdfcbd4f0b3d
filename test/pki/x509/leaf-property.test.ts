import { X509Certificate } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Leaf } from "../../../src/pki/x509/leaf/certificate-signer.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import {
  createTestIssuer,
  proved,
  schedule,
  trustDomain,
  workload,
} from "../../testkit/pki/certificates.ts";
import { generateSigner } from "../../testkit/pki/csr.ts";

const first = "1950-01-01T00:02:00.000Z";
const last = "9999-12-31T23:59:59.000Z";
const issuer = await createTestIssuer("EC-P256", schedule(first, last));
const authority = new X509Certificate(issuer.authority.certificate.der);
const publicKey = SubjectPublicKey.parse(generateSigner("EC-P256").spki);

const domains = fc.stringMatching(/^[a-z0-9._-]{1,255}$/).map(trustDomain);
const labels = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);
const accounts = fc.array(labels, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("."));
const spiffeIds = fc
  .tuple(labels, accounts, domains)
  .map(([namespace, account, domain]) => workload(namespace, account, domain));

const seconds = fc.integer({ min: Date.parse(first) / 1000, max: Date.parse(last) / 1000 });
const validities = fc
  .uniqueArray(seconds, { minLength: 2, maxLength: 2 })
  .map((pair) => pair.toSorted((a, b) => a - b))
  .map(([notBefore = 0, notAfter = 0]) => ({
    notBefore: new Date(notBefore * 1000),
    notAfter: new Date(notAfter * 1000),
  }));

test("node:crypto reads any SPIFFE ID and any validity from the leaf", async () => {
  await fc.assert(
    fc.asyncProperty(spiffeIds, validities, async (spiffeId, validity) => {
      const { der } = await Leaf.issue(issuer, { spiffeId, publicKey, validity, proof: proved });
      const leaf = new X509Certificate(der);
      expect(leaf.subjectAltName).toBe(`URI:${spiffeId}`);
      expect(leaf.validFromDate).toEqual(validity.notBefore);
      expect(leaf.validToDate).toEqual(validity.notAfter);
      expect(leaf.verify(authority.publicKey)).toBe(true);
      expect(leaf.checkIssued(authority)).toBe(true);
    }),
    { numRuns: 300 },
  );
});

test("refuses to issue beyond the authority, or backwards, for any validity", async () => {
  const brief = await createTestIssuer(
    "EC-P256",
    schedule("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z"),
  );
  const end = new Date("2026-01-02T00:00:00.000Z");
  const spiffeId = workload("foo", "bar");
  await fc.assert(
    fc.asyncProperty(validities, fc.boolean(), async ({ notBefore, notAfter }, isBackwards) => {
      const validity = isBackwards
        ? { notBefore: notAfter, notAfter: notBefore }
        : { notBefore, notAfter };
      const isDue = validity.notBefore < validity.notAfter && validity.notAfter <= end;
      const issued = Leaf.issue(brief, { spiffeId, publicKey, validity, proof: proved });
      if (isDue) expect(new X509Certificate((await issued).der).validToDate).toEqual(notAfter);
      else await expect(issued).rejects.toThrow();
    }),
    { numRuns: 200 },
  );
});
