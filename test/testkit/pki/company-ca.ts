import "reflect-metadata/lite";
import { randomBytes } from "node:crypto";
import * as x509 from "@peculiar/x509";
import type { TestCa } from "./plugged-in.ts";

/** Departures of a company's CA from a request. */
export interface SigningDepartures {
  readonly notBefore?: Date;
  readonly notAfter: Date;
  readonly extensions?: readonly x509.Extension[];
  readonly subject?: string;
}

/**
 * Signs a CSR as a company's CA does. It checks the request's own signature, takes the subject and extensions
 * asked for, and adds key identifiers. PEM.
 */
export async function signIntermediate(
  { name, keys }: Pick<TestCa, "name" | "keys">,
  csrPem: string,
  { notBefore = new Date("2020-01-01T00:00:00Z"), notAfter, ...departures }: SigningDepartures,
): Promise<string> {
  const csr = new x509.Pkcs10CertificateRequest(csrPem);
  if (!(await csr.verify())) throw new Error("the request is not signed with its own key");
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: `01${randomBytes(15).toString("hex")}`,
    subject: departures.subject ?? csr.subject,
    issuer: name,
    notBefore,
    notAfter,
    signingAlgorithm: { name: keys.privateKey.algorithm.name, hash: "SHA-256" },
    publicKey: csr.publicKey,
    signingKey: keys.privateKey,
    extensions: [
      ...(departures.extensions ?? csr.extensions),
      await x509.SubjectKeyIdentifierExtension.create(csr.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return `${certificate.toString("pem")}\n`;
}
