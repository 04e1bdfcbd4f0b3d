import { CaError } from "../../foundation/errors.ts";

/** The validity of a certificate in whole seconds. It includes both ends (RFC 5280 §4.1.2.5). */
export interface Validity {
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** The lifetimes of leaves: Istio's `DEFAULT_WORKLOAD_CERT_TTL` and `MAX_WORKLOAD_CERT_TTL`. */
export interface LeafLifetimes {
  readonly defaultSeconds: number;
  readonly maximumSeconds: number;
}

/** Computes validities. */
export const Validity = {
  /** The longest time from notBefore to issuance, for peers whose clocks are behind. istiod backdates as far. */
  backdateSeconds: 120,

  /**
   * The validity of a leaf: from a little before `now`, for the requested time, within the authority's.
   *
   * Zero or less asks for the default. More than the maximum is refused and not shortened. istiod has the
   * same rules (`security/pkg/pki/ca/ca.go`); its nanoseconds overflow above 292 years, hence `bigint`.
   *
   * @throws CaError `lifetime-too-long`; `no-signing-authority` when the authority has expired.
   */
  ofLeaf(
    requestedSeconds: bigint,
    lifetimes: LeafLifetimes,
    authority: Validity,
    now: Date,
  ): Validity {
    const maximumSeconds = lifetimes.maximumSeconds;
    if (requestedSeconds > maximumSeconds) {
      throw new CaError(
        { reason: "lifetime-too-long", requestedSeconds, maximumSeconds },
        `asked for ${requestedSeconds} s of validity, allowed are ${maximumSeconds} s`,
      );
    }
    const seconds = requestedSeconds > 0n ? Number(requestedSeconds) : lifetimes.defaultSeconds;
    if (now.getTime() >= authority.notAfter.getTime()) throw expired();
    const issuedAt = Math.floor(now.getTime() / 1000);
    const notAfter = earlier(new Date((issuedAt + seconds) * 1000), authority.notAfter);
    const backdate = Validity.leafBackdateSeconds(notAfter.getTime() / 1000 - issuedAt);
    return { notBefore: new Date((issuedAt - backdate) * 1000), notAfter };
  },

  /** How far a leaf or token is backdated, in whole seconds. @param lifeSeconds Its granted lifetime. */
  leafBackdateSeconds(lifeSeconds: number): number {
    return Math.min(Validity.backdateSeconds, Math.floor(lifeSeconds * backdatePart));
  },
};

/**
 * The part of its life by which a short leaf is backdated instead. ztunnel renews in the middle of the
 * validity. If a leaf of two minutes were backdated by two, that middle would be its issuance.
 */
const backdatePart = 1 / 10;

function expired(): CaError {
  const why = "the signing authority has expired";
  return new CaError({ reason: "no-signing-authority", why }, why);
}

/** The instant this many seconds later. */
export function addSeconds(instant: Date, seconds: number): Date {
  return new Date(instant.getTime() + seconds * 1000);
}

/** The instant without its fraction of a second, which RFC 5280 §4.1.2.5 forbids in certificates. */
export function wholeSeconds(instant: Date): Date {
  return new Date(Math.floor(instant.getTime() / 1000) * 1000);
}

/** The earlier of two instants. */
export function earlier(a: Date, b: Date): Date {
  return a.getTime() < b.getTime() ? a : b;
}

/** The later of two instants. */
export function later(a: Date, b: Date): Date {
  return a.getTime() < b.getTime() ? b : a;
}
