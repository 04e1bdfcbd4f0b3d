import { generateKeyPairSync } from "node:crypto";
import type { ImportedAuthority } from "../../../src/cli/verbs/import/verify.ts";
import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { SignatureAlgorithm } from "../../../src/pki/signature-algorithm.ts";
import { SpiffeId, type TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { webSigningKey } from "../../../src/pki/web-crypto.ts";
import { Leaf } from "../../../src/pki/x509/leaf/certificate-signer.ts";
import { IdentityProof } from "../../../src/pki/x509/leaf/identity-proof.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { Validity, wholeSeconds } from "../../../src/pki/x509/validity.ts";

/** A workload's certificate under an imported CA, as the workload and its peers get it. */
export interface LeafUnder {
  readonly leafPem: string;
  readonly intermediatesPem: string;
  readonly rootPem: string;
  readonly keyPem: string;
}

const oneHour = { defaultSeconds: 3600, maximumSeconds: 3600 };
const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const keyPem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const spki = new Uint8Array(publicKey.export({ type: "spki", format: "der" }));

/** Issues what a workload of this CA would get. */
export async function leafUnder(
  { certificates, privateKey: authorityKey }: ImportedAuthority,
  trustDomain: TrustDomain,
  now: Date,
): Promise<LeafUnder> {
  const schedule = { publishedFrom: now, signsFrom: now, signsUntil: now, retiresAt: now };
  const authority = await SigningAuthority.create(certificates, schedule);
  const signingKey = webSigningKey(authorityKey, SignatureAlgorithm.of(authority.publicKey));
  const { der } = await Leaf.issue(SigningAuthority.open(authority, signingKey), {
    spiffeId: SpiffeId.ofWorkload(trustDomain, { namespace: "foo", name: "bar" }),
    publicKey: SubjectPublicKey.parse(spki),
    validity: Validity.ofLeaf(3600n, oneHour, authority.certificate.toBeSigned.validity, now),
    proof: {
      provedAt: wholeSeconds(now),
      issuer: IdentityProof.issuerDigest(""),
      isImpersonated: false,
    },
  });
  const pem = (some: readonly Uint8Array<ArrayBuffer>[]) =>
    some.map((each) => Pem.format("CERTIFICATE", each)).join("");
  return {
    leafPem: pem([der]),
    intermediatesPem: pem(certificates.intermediates),
    rootPem: pem(certificates.roots),
    keyPem,
  };
}
