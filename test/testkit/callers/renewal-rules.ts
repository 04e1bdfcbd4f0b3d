import type { Validity } from "../../../src/pki/x509/validity.ts";

/**
 * The wait of a client for its next certificate, in seconds after it got one at `now`. Zero and less mean
 * at once.
 *
 * @param fraction The client's own jitter: at least 0, less than 1.
 */
export type RenewalRule = (validity: Validity, now: Date, fraction: number) => number;

const hour = 3600;

const secondsBetween = (from: Date, to: Date): number => (to.getTime() - from.getTime()) / 1000;

/** The rules of Istio's clients, as their sources have them (`docs/explanation/istio.md`). */
export const renewalRules = {
  /** Half of the time from its own receipt of the leaf to notAfter, with a jitter of one hundredth. */
  "pilot-agent": ({ notAfter }, now, fraction) =>
    secondsBetween(now, notAfter) * (1 - (0.49 + 0.02 * fraction)),
  /** The middle between notBefore and notAfter. */
  ztunnel: ({ notBefore, notAfter }, now) =>
    secondsBetween(now, notBefore) + secondsBetween(notBefore, notAfter) / 2,
  /** An hour before notAfter: at once, whatever notBefore, for a leaf of an hour or less. */
  Kmesh: ({ notAfter }, now) => secondsBetween(now, notAfter) - hour,
} as const satisfies Readonly<Record<string, RenewalRule>>;
