import type { Bytes } from "../encoding/bytes.ts";
import { fingerprintOf } from "../encoding/fingerprint.ts";
import { parseCertificate } from "../x509/certificate.ts";
import { parseSubjectPublicKey } from "../x509/subject-public-key.ts";
import { earlier, later, wholeSeconds } from "../x509/validity.ts";
import type { ScheduledAuthority } from "./schedule.ts";
import type { Taint } from "./taint.ts";

/**
 * A root that verifiers accept although this CA does not sign under it: the root of another CA of the
 * mesh.
 */
export interface AdditionalRoot extends ScheduledAuthority {
  /** The hexadecimal SHA-256 of the certificate. */
  readonly id: string;
  /** The certificate, DER. It is a list because an authority may have several roots. */
  readonly roots: readonly [Bytes];
}

/**
 * A root that the bundle holds from an instant until the root expires. Its signing phase is empty: it
 * stops when it starts.
 *
 * @throws DerError for anything but a certificate; CaError `subject-key-unacceptable` for a key that no
 *   authority may have.
 */
export async function createAdditionalRoot(
  der: Bytes,
  publishedFrom: Date,
): Promise<AdditionalRoot> {
  const { validity, spki } = parseCertificate(der).toBeSigned;
  parseSubjectPublicKey(spki);
  const start = wholeSeconds(publishedFrom);
  return {
    id: fingerprintOf(der),
    roots: [der],
    schedule: {
      publishedFrom: start,
      signsFrom: start,
      signsUntil: start,
      retiresAt: later(start, validity.notAfter),
    },
  };
}

/**
 * The taint that takes a root out of the bundle. The store keeps every record of what verifiers once
 * trusted.
 */
export function retireRoot({ id, schedule }: AdditionalRoot, at: Date, now: Date): Taint {
  const retiresAt = wholeSeconds(earlier(later(at, now), schedule.retiresAt));
  return { id, taintedAt: wholeSeconds(now), retiresAt };
}
