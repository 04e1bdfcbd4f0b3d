import type { Denial } from "../ca/denial.ts";
import type { RevocationContent } from "../custody/record-kinds.ts";
import { shownSerialNumber } from "../pki/encoding/serial-number.ts";

/** What the store or the configuration states against callers and certificates. */
interface Stated {
  readonly stated: "store" | "configuration";
  readonly why: string | undefined;
}

/** A denial. */
export interface DenialStatus extends Stated {
  readonly subject: string;
  /** `undefined` where it lasts until somebody removes it. */
  readonly until: Date | undefined;
  readonly hasEnded: boolean;
}

/** All denials, by their subjects. */
export function denialStatuses(
  stored: readonly Denial[],
  configured: readonly Denial[],
  now: Date,
): readonly DenialStatus[] {
  const statusOf =
    (stated: Stated["stated"]) =>
    ({ subject, until, why }: Denial): DenialStatus => {
      const hasEnded = until !== undefined && until <= now;
      return { subject, stated, until, hasEnded, why };
    };
  const all = [...stored.map(statusOf("store")), ...configured.map(statusOf("configuration"))];
  return all.toSorted((a, b) => (a.subject < b.subject ? -1 : 1));
}

/** A revoked certificate. */
export interface RevokedStatus extends Stated, Pick<RevocationContent, "authority" | "reason"> {
  readonly serial: string;
  readonly revokedAt: Date;
  readonly expiresAt: Date;
}

/** All revoked certificates, the one that was revoked first before the others. */
export function revokedStatuses(
  stored: readonly RevocationContent[],
  configured: readonly RevocationContent[],
): readonly RevokedStatus[] {
  const statusesOf =
    (stated: Stated["stated"]) =>
    ({ certificates, authority, revokedAt, reason, why }: RevocationContent): RevokedStatus[] =>
      [...certificates].map(([number, end]) => ({
        ...{ serial: shownSerialNumber(number), authority, revokedAt },
        ...{ expiresAt: new Date(1000 * end), reason, stated, why },
      }));
  const all = [
    ...stored.flatMap(statusesOf("store")),
    ...configured.flatMap(statusesOf("configuration")),
  ];
  return all.toSorted((a, b) => (a.revokedAt < b.revokedAt ? -1 : 1));
}
