import type { OpenedStore } from "../../../ca/opened-store.ts";
import { type Phase, phaseAt, type Schedule } from "../../../pki/authority/schedule.ts";
import { signingAuthorityAt } from "../../../pki/authority/signing-authority.ts";
import { applyTaints } from "../../../pki/authority/taint.ts";
import { fingerprintOf } from "../../../pki/encoding/fingerprint.ts";
import type { Screen } from "../../terminal/screen.ts";
import { formatTable } from "../../terminal/table.ts";
import { formatInstant } from "../../terminal/text.ts";

/** One authority, or one root that is trusted beside them, as an operator sees it. */
export interface AuthorityReport {
  readonly id: string;
  readonly kind: "authority" | "additional root";
  readonly phase: Phase;
  /** Whether it signs now: of several in their signing phase, the newest does. */
  readonly signs: boolean;
  readonly isTainted: boolean;
  /** `undefined` if it is not tainted, or if the configuration alone says so. */
  readonly taintedAt: Date | undefined;
  /** The kind of its key; `undefined` for an additional root. */
  readonly key: string | undefined;
  /** The hexadecimal SHA-256 of the certificate. */
  readonly fingerprint: string;
  /** The schedule that the taints leave it. */
  readonly schedule: Schedule;
}

/** Every authority and every additional root, in the order of their publication. */
export function reportAuthorities(
  { issuers, additionalRoots, taints, storedTaints }: OpenedStore,
  now: Date,
): AuthorityReport[] {
  const taintOf = (id: string): Pick<AuthorityReport, "isTainted" | "taintedAt"> => ({
    isTainted: taints.some((taint) => taint.id === id),
    taintedAt: storedTaints
      .filter((taint) => taint.id === id)
      .map((taint) => taint.taintedAt)
      .toSorted((a, b) => a.getTime() - b.getTime())[0],
  });
  const signer = signingAuthorityAt(
    issuers.map(({ authority }) => authority),
    now,
  );
  const authorities = issuers.map(({ authority: { id, schedule, certificate, publicKey } }) => ({
    id,
    kind: "authority" as const,
    phase: phaseAt(schedule, now),
    signs: id === signer?.id,
    ...taintOf(id),
    key: publicKey.algorithm,
    fingerprint: fingerprintOf(certificate.der),
    schedule,
  }));
  const roots = applyTaints(additionalRoots, taints).map(({ id, schedule }) => ({
    id,
    kind: "additional root" as const,
    phase: phaseAt(schedule, now),
    signs: false,
    ...taintOf(id),
    key: undefined,
    fingerprint: id,
    schedule,
  }));
  return [...authorities, ...roots].toSorted(
    (a, b) => a.schedule.publishedFrom.getTime() - b.schedule.publishedFrom.getTime(),
  );
}

/** The reports as a table. */
export function formatAuthorities(screen: Screen, reports: readonly AuthorityReport[]): string {
  if (reports.length === 0) return "The store holds no authority.";
  return formatTable(
    screen,
    ["ID", "PHASE", "KEY", "PUBLISHED", "SIGNS FROM", "SIGNS UNTIL", "LEAVES BUNDLE", "SHA-256"],
    reports.map((report) => [
      shortId(report.id),
      phaseOf(screen, report),
      report.key ?? "(root)",
      formatInstant(report.schedule.publishedFrom),
      report.key ? formatInstant(report.schedule.signsFrom) : "never",
      signsUntilOf(report),
      formatInstant(report.schedule.retiresAt),
      report.fingerprint.slice(0, 16),
    ]),
    ["SHA-256", "PUBLISHED"],
  );
}

/** Several authorities may be in their signing phase. The mark is on the only one that signs. */
function phaseOf({ styled }: Screen, { phase, signs, isTainted }: AuthorityReport): string {
  if (isTainted) return styled("bad", `${phase}, tainted`);
  return signs ? styled("good", `${phase}, now`) : phase;
}

/** A taint cuts the schedule, so that the schedule no longer shows when the authority stopped. */
function signsUntilOf({ key, isTainted, taintedAt, schedule }: AuthorityReport): string {
  if (!key) return "never";
  if (!isTainted) return formatInstant(schedule.signsUntil);
  return taintedAt ? `tainted ${formatInstant(taintedAt)}` : "configuration";
}

/** The beginning of an id, enough for a person to tell it from others. */
export function shortId(id: string): string {
  return id.slice(0, 12);
}
