import type { RecordName } from "../../custody/authority-store.ts";
import { type RevocationContent, statementKinds } from "../../custody/record-kinds.ts";
import { concatBytes } from "../../foundation/octets.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { CrlContent } from "../../pki/x509/crl/crl-to-be-signed.ts";
import {
  addSeconds,
  earlier,
  type LeafLifetimes,
  later,
  Validity,
  wholeSeconds,
} from "../../pki/x509/validity.ts";

/** The lengths from which every CRL is computed, in seconds. */
export interface CrlLengths {
  /** The time from the issue of a CRL, a little after thisUpdate, until nextUpdate. */
  readonly lifetimeSeconds: number;
  /** The time from writing a revocation until every reader has seen it. */
  readonly propagationSeconds: number;
}

/** A CRL is replaced after a quarter of its lifetime, so that three quarters are left for delivery and outages. */
const updatesInLifetime = 4;

/** The beginning of the period in which `now` lies. Each period has a CRL of its own, even without a change. */
export function crlPeriodAt({ lifetimeSeconds }: CrlLengths, now: Date): Date {
  const length = Math.floor(lifetimeSeconds / updatesInLifetime) * 1000;
  return new Date(Math.floor(now.getTime() / length) * length);
}

/**
 * The content of an authority's CRL at `now`. It depends on the known revocations and the period alone, so every
 * process that knows the same gives the same bytes to sign.
 *
 * The number grows without a counter that somebody has to write (RFC 5280 §5.2.3). Its parts are, from the highest: the
 * instant by which every reader knows the latest revocation, or the beginning of the period if that is later; the number of
 * entries; the beginning of the period. A process that lacks a revocation never gives a higher number than one that has
 * all of them: its first part is lower, or the first parts are equal and its second part is lower. The first part also
 * decides which entries have left, so that of equal first parts the second grows with knowledge alone.
 *
 * An entry leaves one CRL lifetime and one propagation interval after its certificate has expired, which is later than
 * RFC 5280 §3.3 demands.
 */
export function planCrl(
  authority: string,
  revocations: readonly RevocationContent[],
  lengths: CrlLengths,
  now: Date,
): CrlContent {
  const own = revocations.filter((each) => each.authority === authority).toSorted(byContent);
  const period = crlPeriodAt(lengths, now);
  const leaveSeconds = lengths.lifetimeSeconds + lengths.propagationSeconds;
  // A revocation of REVOKED that is far in the future must not remove all other entries.
  const farthest = addSeconds(now, leaveSeconds);
  const knownFrom = own.reduce((at, each) => later(at, earlier(each.knownFrom, farthest)), period);
  const latest = own.reduce((at, each) => later(at, each.revokedAt), period);
  // thisUpdate is backdated like a leaf's notBefore, for verifiers whose clocks are slow. The revocation dates are
  // backdated as well, because none may be later than thisUpdate.
  const thisUpdate = addSeconds(earlier(latest, wholeSeconds(now)), -Validity.backdateSeconds);
  const revoked = entriesAt(own, addSeconds(knownFrom, -leaveSeconds)).map((entry) => ({
    ...entry,
    revokedAt: earlier(addSeconds(entry.revokedAt, -Validity.backdateSeconds), thisUpdate),
  }));
  return {
    thisUpdate,
    nextUpdate: addSeconds(period, lengths.lifetimeSeconds),
    number: concatBytes(
      bigEndian(secondsOf(knownFrom), 5),
      bigEndian(revoked.length, 4),
      bigEndian(secondsOf(period), 5),
    ),
    revoked,
  };
}

/**
 * The entries of a CRL. Of several revocations of a certificate the first is used, and certificates that had expired by
 * `expiredBy` are left out.
 */
function entriesAt(
  own: readonly RevocationContent[],
  expiredBy: Date,
): CrlContent["revoked"][number][] {
  const seconds = secondsOf(expiredBy);
  const entries = new Map<string, CrlContent["revoked"][number]>();
  for (const { certificates, revokedAt, reason } of own) {
    for (const [serialNumber, end] of certificates) {
      if (end < seconds || entries.has(serialNumber)) continue;
      entries.set(serialNumber, { serialNumber, revokedAt, reason });
    }
  }
  return [...entries.values()];
}

function byContent(a: RevocationContent, b: RevocationContent): number {
  const first = a.revokedAt.getTime() - b.revokedAt.getTime();
  return first || (tieBreakOf(a) < tieBreakOf(b) ? -1 : 1);
}

/** A text that orders revocations of one instant in the same way in every process. */
function tieBreakOf({ certificates, reason }: RevocationContent): string {
  const [first] = certificates.keys();
  return [first, certificates.size, reason].join();
}

const secondsOf = (instant: Date): number => Math.floor(instant.getTime() / 1000);

function bigEndian(number: number, octets: number): Bytes {
  const bytes = new Uint8Array(octets);
  for (let i = octets - 1, left = number; i >= 0; i--, left = Math.floor(left / 256)) {
    bytes[i] = left % 256;
  }
  return bytes;
}

/** Finds the revocation of a certificate by its authority and serial number (content octets in hexadecimal). */
export function revocationOf(
  revocations: readonly RevocationContent[],
  { authority, serialNumber }: { readonly authority: string; readonly serialNumber: string },
): RevocationContent | undefined {
  return revocations.find(
    (each) => each.authority === authority && each.certificates.has(serialNumber),
  );
}

/** Twice the longest lifetime of a CRL: by then no CRL in use has an entry of the record. */
const restSeconds = 48 * 3600;

/** Finds the records of revocations that can be deleted: no CRL needs any of their certificates any more. */
export function expiredRevocations(
  revocations: readonly RevocationContent[],
  propagationSeconds: number,
  now: Date,
): readonly (RecordName & { readonly kind: "revocation" })[] {
  const end = now.getTime() / 1000 - restSeconds - 2 * propagationSeconds;
  return revocations
    .filter(({ certificates }) => Math.max(...certificates.values()) < end)
    .map((each) => ({ kind: "revocation", id: statementKinds.revocation.idOf(each) }));
}

/** The time from one CRL to its nextUpdate. */
export type CrlLifetime = Pick<CrlLengths, "lifetimeSeconds">;

const hour = 3600;

/** Derives the lifetime of CRLs. */
export const CrlLifetime = {
  /**
   * A CRL lasts as long as leaves usually do, between an hour and a day. So if the CA is down, CRLs expire no earlier
   * than the leaves that it cannot renew.
   */
  of({ defaultSeconds }: LeafLifetimes): CrlLifetime {
    return { lifetimeSeconds: Math.min(24 * hour, Math.max(hour, defaultSeconds)) };
  },
};
