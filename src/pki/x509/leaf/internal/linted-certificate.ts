import { type Bytes, Hex } from "../../../encoding/bytes.ts";
import { DerError, DerReader, Tag } from "../../../encoding/der-reader.ts";
import { type Interval, readInterval, version3 } from "../../certificate.ts";
import {
  type CertificateExtensions,
  readExtensions,
  uriName,
} from "../../certificate-extensions.ts";
import type { SubjectPublicKey } from "../../subject-public-key.ts";
import type { Validity } from "../../validity.ts";
import type { IdentityProof } from "../identity-proof.ts";

/** The intended certificate. The linter compares the bytes with it. */
export interface Intent {
  readonly kind: "leaf" | "serving" | "intermediate" | "authority";
  /** Empty for a serving certificate, which has no identity. */
  readonly spiffeId: string;
  /** The names in their order: of a serving certificate, or of a leaf beside its SPIFFE ID. */
  readonly dnsNames?: readonly string[] | undefined;
  /** A key that {@link parseSubjectPublicKey} accepted by RFC 5480 §2 and the key policy. */
  readonly publicKey: SubjectPublicKey;
  readonly keyIdentifier: Bytes;
  readonly validity: Validity;
  /** How the caller was authenticated; only leaves have it. */
  readonly proof?: IdentityProof;
  /** The value of the extension. Present only for an intermediate, because intermediates differ in their path length. */
  readonly basicConstraints?: Bytes;
  /** The value of the extension. Only an intermediate may have one. */
  readonly nameConstraints?: Bytes;
  readonly issuer: IssuerFields;
}

/** The fields of the signer that a certificate repeats, and the validity that it must not exceed. */
export interface IssuerFields {
  readonly signatureAlgorithm: Bytes;
  /** The signer's subject, byte for byte. A self-signed authority is its own signer. */
  readonly name: Bytes;
  readonly validity: Validity;
  /** `undefined` for a self-signed authority, which needs no authority key identifier. */
  readonly keyIdentifier: Bytes | undefined;
}

/**
 * The facts that the rules check, read from the bytes in one pass. A field with one right value is
 * compared in place: this code runs for every certificate, and copies would cost it most.
 */
export interface Linted {
  readonly serialOctets: number;
  readonly isSerialPositive: boolean;
  readonly hasSignersAlgorithm: boolean;
  readonly hasEmptyIssuer: boolean;
  readonly hasSignersName: boolean;
  readonly interval: Interval;
  readonly hasEmptySubject: boolean;
  readonly hasRequestedKey: boolean;
  readonly extensions: CertificateExtensions;
  readonly keyUsage: number;
  readonly hasIntendedNamesOnly: boolean;
}

/** A SEQUENCE without content, DER. */
export const emptySequence: Bytes = Hex.parseLiteral("3000");

/**
 * Parses a TBSCertificate into the facts that the rules check, some of them by comparison with `intent`.
 * @throws DerError for anything but a TBSCertificate of version 3 with a key usage and alternative names.
 */
export function readLinted(toBeSigned: Bytes, intent: Intent): Linted {
  const fields = new DerReader(toBeSigned).enterLast(Tag.sequence);
  fields.literal(version3);
  const serialNumber = fields.enter(Tag.integer);
  const serialOctets = serialNumber.length;
  const hasSignersAlgorithm = isNext(fields, intent.issuer.signatureAlgorithm);
  const hasEmptyIssuer = fields.isAt(emptySequence);
  const hasSignersName = isNext(fields, intent.issuer.name);
  const interval = readInterval(fields);
  const hasEmptySubject = isNext(fields, emptySequence);
  const hasRequestedKey = isNext(fields, intent.publicKey.spki);
  const extensions = readExtensions(fields);
  fields.finish();
  return {
    serialOctets,
    isSerialPositive: isPositive(serialNumber),
    hasSignersAlgorithm,
    hasEmptyIssuer,
    hasSignersName,
    interval,
    hasEmptySubject,
    hasRequestedKey,
    extensions,
    keyUsage: readKeyUsage(extensions),
    hasIntendedNamesOnly: hasOnlyNames(extensions, intent),
  };
}

/** Whether the content octets of an INTEGER are a positive number: DER allows one leading zero, before a high bit. */
function isPositive(content: DerReader): boolean {
  if (content.isDone) return false;
  const first = content.octet();
  if (first !== 0) return first < 0x80;
  return !content.isDone && content.octet() >= 0x80;
}

/** Skips a SEQUENCE. @returns Whether it equals the expected one. */
function isNext(fields: DerReader, expected: Bytes): boolean {
  const isExpected = fields.isAt(expected);
  fields.skip(Tag.sequence);
  return isExpected;
}

/** The first octet of the bits, which holds every bit used here. X.690 §11.2.2 forbids trailing zero bits. */
function readKeyUsage(extensions: CertificateExtensions): number {
  const reader = extensions.keyUsage?.value.fork();
  if (!reader) throw new DerError("no key usage");
  const content = reader.enterLast(Tag.bitString);
  const unusedBits = content.octet();
  const bits = content.octet();
  const lowestBit = bits & -bits;
  const isMinimal = bits !== 0 && unusedBits < 8 && lowestBit === 1 << unusedBits;
  if (!isMinimal || !content.isDone) throw new DerError("key usage bits not minimal");
  return bits;
}

const dnsName = Tag.contextPrimitive(2);

function hasOnlyNames(extensions: CertificateExtensions, intent: Intent): boolean {
  const { kind, spiffeId, dnsNames = [] } = intent;
  const reader = extensions.subjectAltName?.value.fork();
  if (!reader) throw new DerError("no subject alternative name");
  const names = reader.enterLast(Tag.sequence);
  if (names.isDone) return false;
  if (kind !== "serving" && !isName(names, uriName, spiffeId)) return false;
  const isEndEntity = kind === "serving" || kind === "leaf";
  const expected = isEndEntity ? dnsNames : [];
  return expected.every((name) => isName(names, dnsName, name)) && names.isDone;
}

/** Skips a name. @returns Whether it equals the expected one. */
function isName(names: DerReader, kind: number, text: string): boolean {
  return names.nextIs(kind) && spells(names.enter(kind), text);
}

function spells(octets: DerReader, text: string): boolean {
  if (octets.length !== text.length) return false;
  for (let i = 0; i < text.length; i++) if (octets.octet() !== text.charCodeAt(i)) return false;
  return true;
}
