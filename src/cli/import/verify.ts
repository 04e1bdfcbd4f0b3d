import type { Bytes } from "../../pki/bytes.ts";
import type { AuthorityCertificates } from "../../pki/signing-authority.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { Obstacle } from "../obstacle.ts";
import type { PluggedInMaterial } from "./plugged-in-material.ts";

/** A CA that was found able to sign for a trust domain: ready for a schedule and a seal. */
export interface ImportedAuthority {
  /** The one root that the authority chains to is the only one in `roots`. */
  readonly certificates: AuthorityCertificates;
  /** Extractable, of the algorithm that `signatureAlgorithmOf` names: seal it, then let it go. */
  readonly privateKey: CryptoKey;
  /** The first end of a validity between the authority and its root: nothing verifies beyond it. */
  readonly notAfter: Date;
  /** Self-signed roots that came along and that the authority does not need, DER, none twice. */
  readonly additionalRoots: readonly Bytes[];
  /** Sentences for the operator about what is legal and may surprise. */
  readonly warnings: readonly string[];
}

/**
 * Verifies what istiod verifies of a plugged-in CA, and what verifiers of its leaves will.
 *
 * @throws Obstacle with one line for each fault.
 */
export async function verifyPluggedIn(
  material: PluggedInMaterial,
  trustDomain: TrustDomain,
  now: Date,
): Promise<ImportedAuthority> {
  throw new Obstacle(`cannot verify ${material.certificate.name} ${trustDomain} ${now} yet`);
}
