import { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { Intermediate } from "../../../src/pki/x509/intermediate.ts";
import { Leaf } from "../../../src/pki/x509/leaf/certificate-signer.ts";
import type { Intent } from "../../../src/pki/x509/leaf/internal/lint.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { contentOf, elementAt, hex, type Octets } from "../der/mutation.ts";
import {
  clusterLocal,
  createTestIssuer,
  oneDay,
  proved,
  tenDays,
  workload,
} from "./certificates.ts";
import { generateSigner, type SignerKind, signatureIdentifier } from "./csr.ts";

/** Faultless to-be-signed bytes, with their intent. */
interface Subject {
  readonly toBeSigned: Octets;
  readonly intent: Intent;
}

const issuer = await createTestIssuer();

async function leafFor(kind: SignerKind): Promise<Subject> {
  const publicKey = SubjectPublicKey.parse(generateSigner(kind).spki);
  const request = { spiffeId: workload("foo", "bar"), publicKey, validity: oneDay, proof: proved };
  const leaf = Buffer.from((await Leaf.issue(issuer, request)).der);
  const authority = Buffer.from(issuer.authority.certificate.der);
  const keyIdentifier = elementAt(authority, [0, 7, 0, 2, 1, 0]);
  const intent: Intent = {
    kind: "leaf",
    ...request,
    keyIdentifier: contentOf(elementAt(leaf, [0, 7, 0, 3, 1, 0])),
    issuer: {
      signatureAlgorithm: signatureIdentifier["ecdsa-with-SHA256"],
      name: elementAt(authority, [0, 5]),
      validity: issuer.authority.certificate.toBeSigned.validity,
      keyIdentifier: contentOf(keyIdentifier),
    },
  };
  return { toBeSigned: elementAt(leaf, [0]), intent };
}

async function serving(): Promise<Subject> {
  const publicKey = SubjectPublicKey.parse(generateSigner("EC-P256").spki);
  const request = { dnsNames: ["istiod.istio-system.svc", "a.test"], publicKey, validity: oneDay };
  const certificate = Buffer.from((await Leaf.issueServing(issuer, request)).der);
  const leaf = await leafFor("EC-P256");
  const intent: Intent = {
    ...leaf.intent,
    kind: "serving",
    ...request,
    spiffeId: "",
    keyIdentifier: contentOf(elementAt(certificate, [0, 7, 0, 3, 1, 0])),
  };
  return { toBeSigned: elementAt(certificate, [0]), intent };
}

async function intermediate(): Promise<Subject> {
  const publicKey = SubjectPublicKey.parse(generateSigner("EC-P256").spki);
  const rights = { trustDomain: clusterLocal, pathLength: 1, isConstrained: true };
  const subject = { rights, publicKey, validity: oneDay };
  const certificate = Buffer.from((await Intermediate.issue(issuer, subject)).der);
  const leaf = await leafFor("EC-P256");
  const intent: Intent = {
    kind: "intermediate",
    spiffeId: "spiffe://cluster.local",
    publicKey,
    validity: oneDay,
    keyIdentifier: contentOf(elementAt(certificate, [0, 7, 0, 2, 1, 0])),
    basicConstraints: hex("30060101ff020101"),
    nameConstraints: contentOf(elementAt(certificate, [0, 7, 0, 5, 2])),
    issuer: leaf.intent.issuer,
  };
  return { toBeSigned: elementAt(certificate, [0]), intent };
}

async function selfSigned(): Promise<Subject> {
  const { authority } = await NewAuthority.create(clusterLocal, "EC-P256", tenDays);
  const { validity } = authority.certificate.toBeSigned;
  const toBeSigned = elementAt(Buffer.from(authority.certificate.der), [0]);
  const intent: Intent = {
    kind: "authority",
    spiffeId: "spiffe://cluster.local",
    publicKey: authority.publicKey,
    keyIdentifier: contentOf(elementAt(toBeSigned, [7, 0, 2, 1, 0])),
    validity,
    issuer: {
      signatureAlgorithm: signatureIdentifier["ecdsa-with-SHA256"],
      name: elementAt(toBeSigned, [5]),
      validity,
      keyIdentifier: undefined,
    },
  };
  return { toBeSigned, intent };
}

export const subjects: Readonly<
  Record<"ec" | "rsa" | "serving" | "intermediate" | "authority", Subject>
> = {
  ec: await leafFor("EC-P256"),
  rsa: await leafFor("RSA-2048"),
  serving: await serving(),
  intermediate: await intermediate(),
  authority: await selfSigned(),
};
