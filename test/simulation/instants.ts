import type { Validity } from "../../src/pki/x509/validity.ts";

/** The lengths of an hour and a day, in seconds. */
export const hour = 3600;
export const day: number = 24 * hour;

/** Bounds no leaf, because the simulation itself checks that no leaf outlives its authority. */
export const always: Validity = { notBefore: new Date(0), notAfter: new Date(8.64e15) };

/** The instant of a second of a history; programs have whole ones. */
export const at = (now: number): Date => new Date(Math.round(now) * 1000);
