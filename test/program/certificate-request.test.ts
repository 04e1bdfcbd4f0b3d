import "reflect-metadata/lite";
import { readFileSync } from "node:fs";
import { Pkcs10CertificateRequest } from "@peculiar/x509";
import { expect, test } from "vitest";
import type { SubjectKeyKind } from "../../src/agent/configuration/ca-settings.ts";
import { generateSubjectKey, privateKeyPem } from "../../src/agent/identity/x509-svid.ts";
import { DerReader, Tag } from "../../src/pki/encoding/der-reader.ts";
import { Pem } from "../../src/pki/encoding/pem.ts";
import { createCertificateRequest } from "../../src/program/certificate-request.ts";
import { workload } from "../testkit/pki/certificates.ts";
import { requestedUri } from "../testkit/pki/csr.ts";
import { parseCsr } from "../testkit/pki/csr-parsing.ts";

/** The parts of a request that its key does not change. */
function partsOf(pem: string) {
  const der = Pem.parse(pem, ["CERTIFICATE REQUEST"]);
  if (!der) throw new Error("not a request");
  const info = new DerReader(der).enter(Tag.sequence).enter(Tag.sequence);
  info.skip(Tag.integer);
  const subject = info.element(Tag.sequence);
  info.skip(Tag.sequence);
  return { subject, attributes: info.element(Tag.contextConstructed(0)) };
}

test("creates the request of pilot-agent, but for the key and the name", async () => {
  const recorded = partsOf(readFileSync("test/vectors/csr/pilot-agent-p256.pem", "utf8"));
  const key = await generateSubjectKey({ kind: "EC", curve: "P-256" });
  const { subject, attributes } = partsOf(
    await createCertificateRequest(key, workload("foo", "bar")),
  );
  expect(subject).toEqual(recorded.subject);
  expect(Buffer.from(attributes)).toEqual(requestedUri(workload("foo", "bar")));
});

test.each<[SubjectKeyKind, string, string]>([
  [{ kind: "EC", curve: "P-256" }, "EC-P256", "EC PRIVATE KEY"],
  [{ kind: "EC", curve: "P-384" }, "EC-P384", "EC PRIVATE KEY"],
  [{ kind: "RSA", bits: 2048 }, "RSA", "RSA PRIVATE KEY"],
])("proves possession of a key of %o", async (kind, algorithm, label) => {
  const key = await generateSubjectKey(kind);
  const pem = await createCertificateRequest(key, workload("foo", "bar"));
  expect((await parseCsr(pem)).algorithm).toBe(algorithm);
  expect(privateKeyPem(key.privateKey, false)).toContain(`BEGIN ${label}`);
  expect(privateKeyPem(key.privateKey, true)).toContain("BEGIN PRIVATE KEY");
});

test("requests no name where the CA decides on all of them", async () => {
  const key = await generateSubjectKey({ kind: "EC", curve: "P-256" });
  const pem = await createCertificateRequest(key, undefined);
  expect(partsOf(pem).attributes).toEqual(Uint8Array.of(0xa0, 0));
  expect((await parseCsr(pem)).algorithm).toBe("EC-P256");
  expect(await new Pkcs10CertificateRequest(pem).verify()).toBe(true);
});
