import { type Bytes, fromHexLiteral, toHex } from "../encoding/bytes.ts";
import { Tag } from "../encoding/der-reader.ts";
import { derElement, derSequence, derText } from "../encoding/der-writer.ts";
import { Oid } from "../encoding/object-identifiers.ts";
import { randomSerialNumber } from "../encoding/serial-number.ts";
import { type TrustDomain, trustDomainSpiffeId } from "../spiffe-id.ts";
import { certificateAndCrlSigning, extension, subjectAltUri } from "./certificate-extensions.ts";
import { type CertificateSigner, type Leaf, lintAndSign } from "./leaf/certificate-signer.ts";
import type { Intent } from "./leaf/linted-certificate.ts";
import {
  certificateToBeSigned,
  type LeafProfile,
  subjectKeyIdentifier,
} from "./leaf/to-be-signed.ts";
import { keyIdentifier, type SubjectPublicKey } from "./subject-public-key.ts";
import type { Validity } from "./validity.ts";

/** What an intermediate may be, as the operator of its root decides. */
export interface IntermediateRights {
  readonly trustDomain: TrustDomain;
  /** How many authorities may stand below it: 0 to 6. */
  readonly pathLength: number;
  /** Whether name constraints permit it the SPIFFE IDs of its trust domain alone. ztunnel refuses those. */
  readonly isConstrained: boolean;
}

/** The content of an intermediate: its rights, its key and its validity. */
interface IntermediateContent {
  readonly rights: IntermediateRights;
  readonly publicKey: SubjectPublicKey;
  readonly validity: Validity;
}

/**
 * Builds the to-be-signed bytes of an intermediate, lints those bytes and signs those bytes.
 *
 * @throws Error when the bytes break a clause, which is a mistake of this code and never the caller's.
 */
export async function issueIntermediate(
  signer: CertificateSigner,
  { rights, publicKey, validity }: IntermediateContent,
): Promise<Leaf> {
  const serialNumber = randomSerialNumber();
  const identifier = keyIdentifier(publicKey);
  const intent: Intent = {
    kind: "intermediate",
    spiffeId: trustDomainSpiffeId(rights.trustDomain),
    publicKey,
    keyIdentifier: identifier,
    validity,
    basicConstraints: basicConstraints(rights.pathLength),
    ...(rights.isConstrained && { nameConstraints: onlyHost(rights.trustDomain) }),
    issuer: signer.fields,
  };
  const toBeSigned = intermediateToBeSigned(signer.profile, rights, intent, serialNumber);
  const der = await lintAndSign(toBeSigned, intent, signer.signingKey);
  return { der, serialNumber: toHex(serialNumber) };
}

function intermediateToBeSigned(
  profile: LeafProfile,
  { trustDomain }: IntermediateRights,
  intent: Intent,
  serialNumber: Bytes,
): Bytes {
  const { keyIdentifier, basicConstraints: constraints, nameConstraints } = intent;
  const name = intermediateSubject(trustDomain, toHex(keyIdentifier));
  return certificateToBeSigned(
    profile,
    { ...intent, serialNumber, name },
    certificateAndCrlSigning,
    extension(Oid.basicConstraints, true, constraints ?? basicConstraints(0)),
    subjectKeyIdentifier(keyIdentifier),
    profile.authorityKeyIdentifier,
    subjectAltUri(trustDomainSpiffeId(trustDomain), false),
    ...(nameConstraints ? [extension(Oid.nameConstraints, true, nameConstraints)] : []),
  );
}

const commonName = fromHexLiteral("0603550403");

/** The name of an intermediate: its trust domain, and enough of its id to tell it from its predecessors. */
export function intermediateName(trustDomain: TrustDomain, id: string): string {
  return `${trustDomain} intermediate ${id.slice(0, 12)}`.slice(-64);
}

/** The subject of an intermediate: the trust domain as its organization, and its name. */
export function intermediateSubject(trustDomain: TrustDomain, id: string): Bytes {
  const attribute = (oid: Bytes, text: string): Bytes =>
    derElement(Tag.set, derSequence(oid, derElement(Tag.utf8String, derText(text))));
  return derSequence(
    attribute(Oid.organizationName, trustDomain.slice(0, 64)),
    attribute(commonName, intermediateName(trustDomain, id)),
  );
}

/** BasicConstraints of an authority with a path length. */
export function basicConstraints(pathLength: number): Bytes {
  const length = derElement(Tag.integer, Uint8Array.of(pathLength));
  return derSequence(fromHexLiteral("0101ff"), length);
}

/** NameConstraints that permit URIs of one host (RFC 5280 §4.2.1.10). */
function onlyHost(host: string): Bytes {
  const base = derElement(Tag.contextPrimitive(6), derText(host));
  return derSequence(derElement(Tag.contextConstructed(0), derSequence(base)));
}
