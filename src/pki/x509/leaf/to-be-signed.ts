import { concatBytes } from "../../../foundation/octets.ts";
import { type Bytes, Hex } from "../../encoding/bytes.ts";
import { derTrue, Tag } from "../../encoding/der-reader.ts";
import { DerBuilder, derTime } from "../../encoding/internal/der-builder.ts";
import { derElement, derSequence, derText } from "../../encoding/internal/der-writer.ts";
import { Oid } from "../../encoding/object-identifiers.ts";
import { SpiffeId, type TrustDomain } from "../../spiffe-id.ts";
import { version3 } from "../certificate.ts";
import { extension, subjectAltUri, uriName } from "../certificate-extensions.ts";
import type { SubjectPublicKey } from "../subject-public-key.ts";
import type { Validity } from "../validity.ts";
import { IdentityProof, identityProofOctets } from "./identity-proof.ts";

/** The fields of the signer that a certificate repeats, and the validity that it must not exceed. */
export interface IssuerFields {
  /** The whole AlgorithmIdentifier. */
  readonly signatureAlgorithm: Bytes;
  /** The signer's subject, byte for byte (RFC 5280 §4.1.2.4). A self-signed authority is its own signer. */
  readonly name: Bytes;
  readonly validity: Validity;
  /** `undefined` for a self-signed authority, which needs no authority key identifier. */
  readonly keyIdentifier: Bytes | undefined;
}

/** The fields of an authority, of which all its leaves repeat one extension: it is encoded once. */
export interface SignerFields extends IssuerFields {
  /** The whole extension (RFC 5280 §4.2.1.1). */
  readonly authorityKeyIdentifier: Bytes;
}

/** The content of an X509-SVID: its SPIFFE ID, how its holder was authenticated, its key and its validity. */
export interface LeafContent {
  readonly spiffeId: SpiffeId;
  /** DNS names that the operator's policy adds to the SPIFFE ID. */
  readonly dnsNames?: readonly string[] | undefined;
  readonly publicKey: SubjectPublicKey;
  readonly validity: Validity;
  /** What this CA itself has established. */
  readonly proof: IdentityProof;
}

/** The content of a serving certificate: its hosts, its key and its validity. */
export interface ServingContent {
  readonly dnsNames: readonly string[];
  readonly publicKey: SubjectPublicKey;
  readonly validity: Validity;
}

/** What the CA adds to the content. Nothing else that a caller sends can reach a certificate. */
export interface IssuedFields {
  readonly keyIdentifier: Bytes;
  readonly serialNumber: Bytes;
}

const emptySequence = Hex.parseLiteral("3000");
const dnsName = Tag.contextPrimitive(2);

/** @param bits A BIT STRING without trailing zero bits (X.690 §11.2.2), in hexadecimal. */
const keyUsage = (bits: string): Bytes => extension(Oid.keyUsage, true, Hex.parseLiteral(bits));

// RFC 8813 §3 forbids keyEncipherment for EC keys.
const digitalSignature = keyUsage("03020780");
const digitalSignatureAndKeyEncipherment = keyUsage("030205a0");

/** The KeyUsage of a CA: keyCertSign and cRLSign. */
export const certificateAndCrlSigning: Bytes = keyUsage("03020106");

const extKeyUsage = (...purposes: Bytes[]): Bytes =>
  extension(Oid.extKeyUsage, false, derSequence(...purposes));
const serverAndClientAuth = extKeyUsage(Oid.serverAuth, Oid.clientAuth);
const serverAuthOnly = extKeyUsage(Oid.serverAuth);
const notAnAuthority = extension(Oid.basicConstraints, true, emptySequence);
const anAuthority = extension(Oid.basicConstraints, true, Hex.parseLiteral("30030101ff"));

/** A subject key identifier. */
export const subjectKeyIdentifier = (identifier: Bytes): Bytes =>
  extension(Oid.subjectKeyIdentifier, false, derElement(Tag.octetString, identifier));

/** An authority key identifier. */
export const authorityKeyIdentifier = (identifier: Bytes): Bytes =>
  extension(
    Oid.authorityKeyIdentifier,
    false,
    derSequence(derElement(Tag.contextPrimitive(0), identifier)),
  );

/**
 * The TBSCertificate of an X509-SVID: an empty subject, and its SPIFFE ID as its only URI. The order of
 * the extensions is istiod's (`security/pkg/pki/util/generate_cert.go`), and the proof comes last. The function is
 * long because it writes one structure from its end to its beginning, each line where its octets are.
 */
export function leafToBeSigned(issuer: SignerFields, fields: LeafContent & IssuedFields): Bytes {
  const { publicKey, validity, spiffeId, dnsNames = [] } = fields;
  const der = new DerBuilder(
    publicKey.spki.length +
      issuer.name.length +
      issuer.authorityKeyIdentifier.length +
      spiffeId.length +
      dnsNames.reduce((sum, name) => sum + name.length + 4, 0) +
      identityProofOctets +
      256,
  );
  // The builder writes from the last field to the first.
  const end = der.position;
  IdentityProof.prepend(der, fields.proof);
  const namesEnd = der.position;
  for (const name of dnsNames.toReversed()) {
    const nameEnd = der.position;
    der.prependText(name);
    der.close(dnsName, nameEnd);
  }
  const idEnd = der.position;
  der.prependText(spiffeId);
  der.close(uriName, idEnd);
  der.close(Tag.sequence, namesEnd);
  der.close(Tag.octetString, namesEnd);
  der.prepend(criticalSubjectAltName);
  der.close(Tag.sequence, namesEnd);
  der.prepend(issuer.authorityKeyIdentifier);
  const keyIdentifierEnd = der.position;
  der.prependElement(Tag.octetString, fields.keyIdentifier);
  der.close(Tag.octetString, keyIdentifierEnd);
  der.prepend(Oid.subjectKeyIdentifier);
  der.close(Tag.sequence, keyIdentifierEnd);
  der.prepend(publicKey.algorithm === "RSA" ? fixedRsaExtensions : fixedExtensions);
  der.close(Tag.sequence, end);
  der.close(Tag.contextConstructed(3), end);
  der.prepend(publicKey.spki);
  der.prepend(emptySequence);
  const validityEnd = der.position;
  der.prependTime(validity.notAfter);
  der.prependTime(validity.notBefore);
  der.close(Tag.sequence, validityEnd);
  der.prepend(issuer.name);
  der.prepend(issuer.signatureAlgorithm);
  der.prependElement(Tag.integer, fields.serialNumber);
  der.prepend(version3);
  der.close(Tag.sequence, end);
  return der.finish();
}

const criticalSubjectAltName = concatBytes(Oid.subjectAltName, derTrue);

const fixedExtensions = concatBytes(digitalSignature, serverAndClientAuth, notAnAuthority);
const fixedRsaExtensions = concatBytes(
  digitalSignatureAndKeyEncipherment,
  serverAndClientAuth,
  notAnAuthority,
);

/** The TBSCertificate of a TLS server: an empty subject, DNS names, and serverAuth alone. It carries no identity. */
export function servingToBeSigned(
  issuer: SignerFields,
  fields: ServingContent & IssuedFields,
): Bytes {
  const { publicKey, dnsNames } = fields;
  const names = derSequence(...dnsNames.map((name) => derElement(dnsName, derText(name))));
  return certificateToBeSigned(
    issuer,
    { ...fields, name: emptySequence },
    publicKey.algorithm === "RSA" ? digitalSignatureAndKeyEncipherment : digitalSignature,
    serverAuthOnly,
    notAnAuthority,
    subjectKeyIdentifier(fields.keyIdentifier),
    issuer.authorityKeyIdentifier,
    extension(Oid.subjectAltName, true, names),
  );
}

/** The fields that distinguish one self-signed authority. */
export interface AuthorityFields extends IssuedFields {
  readonly trustDomain: TrustDomain;
  readonly publicKey: SubjectPublicKey;
  readonly validity: Validity;
  readonly signatureAlgorithm: Bytes;
}

/**
 * The TBSCertificate of a self-signed authority: subject `O=<trust domain>`, and the trust domain's
 * SPIFFE ID as its only name.
 */
export function authorityToBeSigned(fields: AuthorityFields): Bytes {
  const { signatureAlgorithm, keyIdentifier, trustDomain } = fields;
  const name = authorityName(trustDomain);
  return certificateToBeSigned(
    { signatureAlgorithm, name },
    { ...fields, name },
    certificateAndCrlSigning,
    anAuthority,
    subjectKeyIdentifier(keyIdentifier),
    subjectAltUri(SpiffeId.ofTrustDomain(trustDomain), false),
  );
}

/**
 * The TBSCertificate of any certificate (RFC 5280 §4.1), with at least one extension. A leaf, of which there are many,
 * has its own writer.
 */
export function certificateToBeSigned(
  issuer: Pick<IssuerFields, "signatureAlgorithm" | "name">,
  subject: Pick<AuthorityFields, "serialNumber" | "validity" | "publicKey"> & {
    readonly name: Bytes;
  },
  ...extensions: readonly Bytes[]
): Bytes {
  return derSequence(
    version3,
    derElement(Tag.integer, subject.serialNumber),
    issuer.signatureAlgorithm,
    issuer.name,
    derSequence(derTime(subject.validity.notBefore), derTime(subject.validity.notAfter)),
    subject.name,
    subject.publicKey.spki,
    derElement(Tag.contextConstructed(3), derSequence(...extensions)),
  );
}

/**
 * The Name `O=<trust domain>`, and perhaps a common name. The trust domain is cut to the 64 characters that RFC 5280
 * Appendix A allows (ub-organization-name). The cut is harmless: no identity is read from it.
 */
export function authorityName(trustDomain: TrustDomain, commonName?: string): Bytes {
  const attribute = (type: Bytes, text: string): Bytes =>
    derElement(Tag.set, derSequence(type, derElement(Tag.utf8String, derText(text))));
  const organization = attribute(Oid.organizationName, trustDomain.slice(0, 64));
  if (commonName === undefined) return derSequence(organization);
  return derSequence(organization, attribute(Oid.commonName, commonName));
}
