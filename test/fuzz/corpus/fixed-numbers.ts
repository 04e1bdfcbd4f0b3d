import { createHash } from "node:crypto";
import type { Octets } from "../../testkit/der/mutation.ts";

/** Octets that depend on a name alone (SHAKE256). */
export const fixedOctets = (name: string, length: number): Octets =>
  Buffer.from(createHash("shake256", { outputLength: length }).update(name).digest());

/** Big-endian. */
export const numberOf = (octets: Uint8Array): bigint =>
  BigInt(`0x${Buffer.from(octets).toString("hex") || "0"}`);

/** Big-endian, with zeros in front. */
export const octetsOf = (number: bigint, length: number): Octets =>
  Buffer.from(number.toString(16).padStart(2 * length, "0"), "hex");

/** The inverse of a number modulo another, by Euclid. The two have no common divisor. */
export function inverse(number: bigint, modulus: bigint): bigint {
  let [r, nextR] = [modulus, number % modulus];
  let [t, nextT] = [0n, 1n];
  while (nextR !== 0n) {
    const quotient = r / nextR;
    [r, nextR] = [nextR, r - quotient * nextR];
    [t, nextT] = [nextT, t - quotient * nextT];
  }
  return ((t % modulus) + modulus) % modulus;
}
