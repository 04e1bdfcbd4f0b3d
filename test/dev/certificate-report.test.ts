import "reflect-metadata/lite";
import { KeyObject } from "node:crypto";
import {
  BasicConstraintsExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";
import { expect, test } from "vitest";
import { certificateReport } from "../../dev/workload/certificate-report.ts";
import { OperatorError } from "../../src/foundation/errors.ts";

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const notBefore = new Date("2026-11-21T00:00:00Z");
const hours = (count: number) => new Date(notBefore.getTime() + count * 3_600_000);
const keyPair = () => crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);

async function root(name: string) {
  const keys = await keyPair();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber: "01",
    name,
    keys,
    signingAlgorithm: algorithm,
    notBefore,
    notAfter: hours(24 * 450),
    extensions: [new BasicConstraintsExtension(true, undefined, true)],
  });
  return { keys, pem: `${certificate.toString("pem")}\n` };
}

async function leafOf({ keys }: { keys: CryptoKeyPair }, issuer: string) {
  const own = await keyPair();
  const certificate = await X509CertificateGenerator.create({
    serialNumber: "0abc",
    issuer,
    publicKey: own.publicKey,
    signingKey: keys.privateKey,
    signingAlgorithm: algorithm,
    notBefore,
    notAfter: hours(24.5),
    extensions: [
      new SubjectAlternativeNameExtension([{ type: "url", value: "spiffe://td/ns/a/sa/b" }], true),
    ],
  });
  return { key: KeyObject.from(own.privateKey), pem: `${certificate.toString("pem")}\n` };
}

test("shows the fields of a certificate, and every root of its trust bundle", async () => {
  const [signing, other] = [await root("O=td"), await root("O=next")];
  const leaf = await leafOf(signing, "O=td");
  const report = certificateReport([leaf.pem, other.pem + signing.pem], leaf.key);
  expect(report).toEqual([
    ["SPIFFE ID", "spiffe://td/ns/a/sa/b"],
    ["serial", "0abc"],
    ["issuer", "O=td"],
    ["valid", "2026-11-21 00:00:00Z until 2026-11-22 00:30:00Z (24 h 30 min)"],
    ["key", "EC prime256v1"],
    ["chain", "leaf, trust bundle"],
    ["trust bundle", "2 roots"],
    ["", "O=next, 2026-11-21 00:00:00Z until 2028-02-14 00:00:00Z (450 days)"],
    ["", expect.stringMatching(/^SHA-256 (?:[0-9A-F]{2}:){31}[0-9A-F]{2}$/)],
    ["", "O=td, 2026-11-21 00:00:00Z until 2028-02-14 00:00:00Z (450 days)"],
    ["", expect.stringMatching(/^SHA-256 /)],
    ["verified", expect.stringContaining("signed")],
  ]);
});

test("refuses a certificate for another key, and a trust bundle that did not sign it, whatever its name", async () => {
  const [signing, impostor] = [await root("O=td"), await root("O=td")];
  const [leaf, other] = [await leafOf(signing, "O=td"), await leafOf(signing, "O=td")];
  expect(() => certificateReport([leaf.pem, signing.pem], other.key)).toThrow(OperatorError);
  expect(() => certificateReport([leaf.pem, impostor.pem], leaf.key)).toThrow(OperatorError);
});

test("refuses a chain of one element", async () => {
  const leaf = await leafOf(await root("O=td"), "O=td");
  expect(() => certificateReport([leaf.pem], leaf.key)).toThrow(OperatorError);
  expect(() => certificateReport([], leaf.key)).toThrow(OperatorError);
});
