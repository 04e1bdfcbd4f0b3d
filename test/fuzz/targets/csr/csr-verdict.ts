import { X509Certificate } from "node:crypto";
import { Leaf } from "../../../../src/pki/x509/leaf/certificate-signer.ts";
import type { SubjectPublicKey } from "../../../../src/pki/x509/subject-public-key.ts";
import { createTestIssuer, oneDay, proved, workload } from "../../../testkit/pki/certificates.ts";
import { parseCsr } from "../../../testkit/pki/csr-parsing.ts";
import { orReason, requireThat, WrongAnswer } from "../target.ts";
import { judgeRequest, peculiarKey } from "./csr-oracle.ts";

const reasons: readonly string[] = [
  "csr-malformed",
  "csr-signature-invalid",
  "csr-signature-algorithm-unacceptable",
  "subject-key-unacceptable",
];

const issuer = await createTestIssuer();

/**
 * Parses a CSR by both providers. One that is accepted must hold what `node:crypto` and
 * `@peculiar/x509` find in it, and its key must be the one in the certificate.
 */
export async function judgeCsr(pem: string): Promise<string> {
  const parsed = await orReason(() => parseCsr(pem));
  if (typeof parsed === "string") {
    requireThat(reasons.includes(parsed), `refused a CSR with ${parsed}`);
    return parsed;
  }
  const der = decodePem(pem);
  const facts = judgeRequest(der);
  if (typeof facts === "string") throw new WrongAnswer(`accepted a CSR, but ${facts}`);
  requireThat(
    facts.spki.equals(parsed.spki),
    "took another public key from the CSR than its third element",
  );
  const peculiar = peculiarKey(der);
  requireThat(!peculiar || peculiar.equals(parsed.spki), "@peculiar/x509 finds another public key");
  await requireCertified(parsed);
  return peculiar ? "accepted" : "accepted, not read by @peculiar/x509";
}

async function requireCertified(publicKey: SubjectPublicKey): Promise<void> {
  const spiffeId = workload("foo", "bar");
  const request = { spiffeId, publicKey, validity: oneDay, proof: proved };
  const leaf = await Leaf.issue(issuer, request);
  const certified = new X509Certificate(leaf.der).publicKey.export({ type: "spki", format: "der" });
  requireThat(certified.equals(publicKey.spki), "certified another public key");
}

/** Reads a block of PEM in another way than the code under test. @throws WrongAnswer unless it is one. */
function decodePem(pem: string): Buffer<ArrayBuffer> {
  const lines = pem
    .trim()
    .split("\n")
    .map((line) => line.replace(/\r$/, ""));
  const boundary = /^-----(BEGIN|END) (NEW )?CERTIFICATE REQUEST-----$/;
  const isBlock = boundary.test(lines[0] ?? "") && boundary.test(lines.at(-1) ?? "");
  const symbols = lines.slice(1, -1).join("").replace(/\s/g, "");
  const der = Buffer.from(symbols, "base64");
  requireThat(
    isBlock && der.toString("base64") === symbols,
    "accepted what is not one canonical block of PEM",
  );
  return der;
}
