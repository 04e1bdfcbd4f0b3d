import { type Bytes, Hex } from "../encoding/bytes.ts";
import { derTrue, Tag } from "../encoding/der-reader.ts";
import { derElement, derSequence, derText } from "../encoding/internal/der-writer.ts";
import { Oid } from "../encoding/object-identifiers.ts";
import { SpiffeId, type TrustDomain } from "../spiffe-id.ts";
import { extension, subjectAltUri } from "./certificate-extensions.ts";
import { type CertificateSigner, issue, type Leaf } from "./leaf/certificate-signer.ts";
import {
  authorityName,
  certificateAndCrlSigning,
  certificateToBeSigned,
  subjectKeyIdentifier,
} from "./leaf/to-be-signed.ts";
import type { SubjectPublicKey } from "./subject-public-key.ts";
import type { Validity } from "./validity.ts";

/** What an intermediate may be, as the operator of its root decides. */
export interface IntermediateRights {
  readonly trustDomain: TrustDomain;
  /** How many subordinate CAs may follow below it in a path: 0 to 6. */
  readonly pathLength: number;
  /** Whether name constraints permit only the SPIFFE IDs of its trust domain. ztunnel refuses such an intermediate. */
  readonly isConstrained: boolean;
}

/** The content of an intermediate. */
interface IntermediateContent {
  readonly rights: IntermediateRights;
  readonly publicKey: SubjectPublicKey;
  readonly validity: Validity;
}

/** Issues intermediates. */
export const Intermediate = {
  /** Lints and signs an intermediate. @throws Error if the bytes break a clause. */
  issue(
    signer: CertificateSigner,
    { rights, publicKey, validity }: IntermediateContent,
  ): Promise<Leaf> {
    const { trustDomain, pathLength, isConstrained } = rights;
    const content = {
      kind: "intermediate" as const,
      spiffeId: SpiffeId.ofTrustDomain(trustDomain),
      publicKey,
      validity,
      basicConstraints: basicConstraints(pathLength),
      ...(isConstrained && { nameConstraints: onlyHost(trustDomain) }),
    };
    return issue(signer, content, (issuer, { nameConstraints, ...fields }) =>
      certificateToBeSigned(
        issuer,
        { ...fields, name: intermediateSubject(trustDomain, Hex.format(fields.keyIdentifier)) },
        certificateAndCrlSigning,
        extension(Oid.basicConstraints, true, fields.basicConstraints),
        subjectKeyIdentifier(fields.keyIdentifier),
        issuer.authorityKeyIdentifier,
        subjectAltUri(fields.spiffeId, false),
        ...(nameConstraints ? [extension(Oid.nameConstraints, true, nameConstraints)] : []),
      ),
    );
  },

  /**
   * The name of an intermediate: its trust domain, and enough of its id to tell it from its predecessors. Of a
   * longer name, the last 64 characters are kept.
   */
  nameOf(trustDomain: TrustDomain, id: string): string {
    return `${trustDomain} intermediate ${id.slice(0, 12)}`.slice(-64);
  },
};

/** The subject of an intermediate: the trust domain as its organization, and its name. */
export const intermediateSubject = (trustDomain: TrustDomain, id: string): Bytes =>
  authorityName(trustDomain, Intermediate.nameOf(trustDomain, id));

/**
 * The value of the extension BasicConstraints of a CA (RFC 5280 §4.2.1.9), without the Extension around it.
 *
 * @param pathLength From 0 to 127.
 */
export const basicConstraints = (pathLength: number): Bytes =>
  derSequence(derTrue, derElement(Tag.integer, Uint8Array.of(pathLength)));

/** NameConstraints that permit URIs of one host (RFC 5280 §4.2.1.10). */
function onlyHost(host: string): Bytes {
  const base = derElement(Tag.contextPrimitive(6), derText(host));
  return derSequence(derElement(Tag.contextConstructed(0), derSequence(base)));
}
