import { type Bytes, toHex } from "../encoding/bytes.ts";
import { parseCertificate } from "../x509/certificate.ts";
import { parseSubjectPublicKey } from "../x509/subject-public-key.ts";
import { earlier, later, wholeSeconds } from "../x509/validity.ts";
import type { ScheduledAuthority } from "./schedule.ts";
import type { Taint } from "./taint.ts";

/** A root that verifiers accept and that this CA does not sign under: another CA of the same mesh. */
export interface AdditionalRoot extends ScheduledAuthority {
  /** The hexadecimal SHA-256 of the certificate. */
  readonly id: string;
  /** The one certificate, DER; a list as authorities have it. */
  readonly roots: readonly [Bytes];
}

/**
 * A root that is published from an instant on until it expires. It never signs, so as far as its
 * schedule is concerned it has always stopped.
 *
 * @throws DerError when it is not a certificate, or CaError `subject-key-unacceptable` when no
 *   authority may have its key.
 */
export async function createAdditionalRoot(
  der: Bytes,
  publishedFrom: Date,
): Promise<AdditionalRoot> {
  const { validity, spki } = parseCertificate(der).toBeSigned;
  parseSubjectPublicKey(spki);
  const digest = await crypto.subtle.digest("SHA-256", der);
  const start = wholeSeconds(publishedFrom);
  return {
    id: toHex(new Uint8Array(digest)),
    roots: [der],
    schedule: {
      publishedFrom: start,
      signsFrom: start,
      signsUntil: start,
      retiresAt: later(start, validity.notAfter),
    },
  };
}

/** What takes a root out of the bundle: a taint, because the store keeps what verifiers once trusted. */
export function retireRoot({ id, schedule }: AdditionalRoot, at: Date, now: Date): Taint {
  const retiresAt = wholeSeconds(earlier(later(at, now), schedule.retiresAt));
  return { id, taintedAt: wholeSeconds(now), retiresAt };
}
