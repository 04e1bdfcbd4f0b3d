import { CaError } from "../../foundation/errors.ts";

/** Both ends belong to the interval (RFC 5280 §4.1.2.5); whole seconds. */
export interface Validity {
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** How long leaves may live, as Istio's DEFAULT_ and MAX_WORKLOAD_CERT_TTL say. */
export interface LeafLifetimes {
  readonly defaultSeconds: number;
  readonly maximumSeconds: number;
}

/** Certificates start this long before their issuance, for peers whose clocks are behind (Istio's grace). */
export const backdateSeconds = 120;

/**
 * The validity of a leaf: two minutes back, and as long as was asked, but never beyond the authority.
 *
 * Zero and less ask for the default; more than the maximum is an error, not a clamp (Istio's rules;
 * `bigint`, because Istio's own arithmetic overflows above 292 years).
 *
 * @throws CaError `lifetime-too-long`; `no-signing-authority` when the authority has expired.
 */
export function leafValidity(
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
  return {
    notBefore: new Date((issuedAt - backdateSeconds) * 1000),
    notAfter: earlier(new Date((issuedAt + seconds) * 1000), authority.notAfter),
  };
}

function expired(): CaError {
  const why = "the signing authority has expired";
  return new CaError({ reason: "no-signing-authority", why }, why);
}

/** The instant this many seconds later. */
export function addSeconds(instant: Date, seconds: number): Date {
  return new Date(instant.getTime() + seconds * 1000);
}

/** The instant without its fraction of a second, which no certificate can carry. */
export function wholeSeconds(instant: Date): Date {
  return new Date(Math.floor(instant.getTime() / 1000) * 1000);
}

/** The first of two instants. */
export function earlier(a: Date, b: Date): Date {
  return a.getTime() < b.getTime() ? a : b;
}

/** The last of two instants. */
export function later(a: Date, b: Date): Date {
  return a.getTime() < b.getTime() ? b : a;
}
