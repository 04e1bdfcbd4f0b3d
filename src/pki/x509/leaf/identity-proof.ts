import { sha256 } from "@noble/hashes/sha2.js";
import { type Bytes, Hex } from "../../encoding/bytes.ts";
import { type DerReader, derTrue, Tag } from "../../encoding/der-reader.ts";
import type { DerBuilder } from "../../encoding/internal/der-builder.ts";
import { Oid } from "../../encoding/object-identifiers.ts";
import { readGeneralizedTime } from "../certificate.ts";
import type { Extension } from "../certificate-extensions.ts";

/**
 * How this CA last established an identity by a token. Every X509-SVID carries it in a private extension,
 * and a renewal by the certificate copies it, so that a chain of renewals knows its beginning:
 *
 *     SEQUENCE { provedAt GeneralizedTime, issuer OCTET STRING (SIZE (16)), isImpersonated BOOLEAN }
 */
export interface IdentityProof {
  /** In whole seconds. */
  readonly provedAt: Date;
  /** The {@link IdentityProof.issuerDigest} of the token's issuer, or of the entry of its `subjects`. */
  readonly issuer: Bytes;
  /** Whether the token was that of another account, which named the workload: of a node proxy, a signer or a gateway. */
  readonly isImpersonated: boolean;
}

/** Writes and reads the extension with the proof of an identity. */
export const IdentityProof = {
  /**
   * The first 16 octets of the SHA-256 of an issuer's name. Anybody can read a certificate, and the name
   * may be an internal URL. The digest hides only a name that cannot be guessed.
   */
  issuerDigest(name: string): Bytes {
    return sha256(new TextEncoder().encode(name)).slice(0, 16);
  },

  /** Prepends the whole extension, not critical. */
  prepend(der: DerBuilder, proof: IdentityProof): void {
    const end = der.position;
    der.prepend(proof.isImpersonated ? derTrue : asn1False);
    der.prependElement(Tag.octetString, proof.issuer);
    der.prependTime(proof.provedAt, Tag.generalizedTime);
    der.close(Tag.sequence, end);
    der.close(Tag.octetString, end);
    der.prepend(Oid.identityProof);
    der.close(Tag.sequence, end);
  },

  /**
   * Parses the extension that {@link IdentityProof} describes. The size of `issuer` is not checked.
   * @throws DerError for another form.
   */
  read({ value }: Extension): IdentityProof {
    const fields = value.fork().enterLast(Tag.sequence);
    const provedAt = readGeneralizedTime(fields);
    const issuer = fields.content(Tag.octetString);
    const isImpersonated = readBoolean(fields);
    fields.finish();
    return { provedAt, issuer, isImpersonated };
  },
};

const asn1False = Hex.parseLiteral("010100");

/** Octets of the whole extension, whatever it says. */
export const identityProofOctets = 80;

function readBoolean(fields: DerReader): boolean {
  const isTrue = fields.isAt(derTrue);
  fields.literal(isTrue ? derTrue : asn1False);
  return isTrue;
}
