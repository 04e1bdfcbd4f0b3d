import type { CryptoProvider } from "../crypto-provider.ts";
import { type Bytes, Hex } from "../encoding/bytes.ts";
import { DerError, DerReader, derTrue, Tag } from "../encoding/der-reader.ts";
import { requireValues } from "../encoding/internal/der-values.ts";
import { Certificate } from "../x509/certificate.ts";
import { type CertificateExtensions, extensionsIn } from "../x509/certificate-extensions.ts";
import { requireDistinguishedName } from "../x509/internal/distinguished-name.ts";
import { SubjectPublicKey } from "../x509/subject-public-key.ts";

/**
 * Reads the certificate of another CA's authority, as strictly as the strictest verifier of a mesh does. A
 * verifier that cannot read one certificate of a trust bundle may refuse the whole bundle.
 *
 * It verifies neither the signature nor that the certificate is a CA's.
 *
 * @throws DerError for a certificate that one of these verifiers refuses; the message says why.
 */
export function parseForeignAuthority(der: Bytes): Certificate {
  const certificate = Certificate.parse(der);
  requireValues(new DerReader(der));
  requireStandardExtensions(certificate.signedBytes);
  const { serialNumber, issuer, subject, spki, extensions } = certificate.toBeSigned;
  if ((serialNumber[0] ?? 0) >= 0x80) {
    throw new DerError("a negative serial number (RFC 5280 §4.1.2.2)");
  }
  if (SubjectPublicKey.isPostQuantum(spki)) {
    throw new DerError("a post-quantum key, which no data plane of a mesh verifies");
  }
  requireDistinguishedName(issuer);
  requireDistinguishedName(subject);
  requireKeyIdentifiers(extensions);
  requireBasicConstraints(extensions.basicConstraints?.value.fork());
  requireKeyPurposes(extensions.extKeyUsage?.value.fork());
  requireAlternativeNames(extensions.subjectAltName?.value.fork());
  return certificate;
}

/**
 * Requires that verifiers can read a foreign CA's certificate: by {@link parseForeignAuthority}, and by the platform's
 * verifier where it has one. It verifies no signature.
 *
 * @throws DerError for a certificate that one of the two refuses.
 */
export function requireForeign(
  { cryptoProvider }: { readonly cryptoProvider: CryptoProvider },
  der: Bytes,
): void {
  parseForeignAuthority(der);
  cryptoProvider.requireReadable(der);
}

/** id-ce and id-pe: RFC 5280 defines the values of these extensions. All others may have any octets as their value. */
const standardArcs = [Hex.parseLiteral("551d"), Hex.parseLiteral("2b060105050701")];

/** Requires DER in the values of standard extensions, inside their OCTET STRINGs. */
function requireStandardExtensions(toBeSigned: Bytes): void {
  for (const { oid, value } of extensionsIn(toBeSigned)) {
    const name = oid.enter(Tag.objectIdentifier);
    if (standardArcs.some((arc) => name.isAt(arc))) requireValues(value);
  }
}

/** Requires the forms of RFC 5280 §4.2.1.1 and §4.2.1.2. */
function requireKeyIdentifiers(extensions: CertificateExtensions): void {
  const { authorityKeyIdentifier, subjectKeyIdentifier } = extensions;
  if (authorityKeyIdentifier?.isCritical || subjectKeyIdentifier?.isCritical) {
    throw new DerError("a critical key identifier");
  }
}

/** Requires the form of RFC 5280 §4.2.1.9. Refuses a path length of more than one octet, which would limit nothing. */
function requireBasicConstraints(value: DerReader | undefined): void {
  if (!value) return;
  const constraints = value.enter(Tag.sequence);
  value.finish();
  if (constraints.isDone) return;
  constraints.literal(derTrue);
  if (!constraints.isDone && constraints.unsignedInteger().length > 1) {
    throw new DerError("a path length that is too large");
  }
  constraints.finish();
}

/** Requires the form of RFC 5280 §4.2.1.12. */
function requireKeyPurposes(value: DerReader | undefined): void {
  const purposes = value?.enter(Tag.sequence);
  while (purposes && !purposes.isDone) purposes.skip(Tag.objectIdentifier);
  value?.finish();
}

const uriTag = Tag.contextPrimitive(6);

/** A mailbox, a DNS name and a URI, each an IA5String. */
const ia5Names: readonly number[] = [Tag.contextPrimitive(1), Tag.contextPrimitive(2), uriTag];

/** A URI of RFC 3986 without user information. Verifiers differ in which other forms they accept. */
const uriPattern = /^[a-z][a-z0-9+.-]*:(\/\/[a-z0-9.-]+(:\d+)?)?[a-z0-9._~!$&'()*+,;=:@/?#-]*$/i;

/** Requires the form of RFC 5280 §4.2.1.6. GnuTLS refuses a certificate with an empty name. */
function requireAlternativeNames(value: DerReader | undefined): void {
  const names = value?.enter(Tag.sequence);
  while (names && !names.isDone) {
    const [tag, content] = names.any();
    const octets = content.rest();
    const isText = octets.length > 0 && octets.every((octet) => octet < 0x80);
    if (ia5Names.includes(tag) && !isText) throw new DerError("a name that is empty or not ASCII");
    if (tag === uriTag && !uriPattern.test(String.fromCharCode(...octets))) {
      throw new DerError("a name that is not a URI");
    }
  }
  value?.finish();
}
