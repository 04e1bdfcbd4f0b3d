import { createECDH } from "node:crypto";
import type { Octets } from "./der/mutation.ts";

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

/** A NIST curve (FIPS 186-5, SP 800-186 §3.2.1). */
interface Curve {
  readonly opensslName: string;
  readonly order: bigint;
  readonly scalarOctets: number;
}

export const curves: Readonly<Record<"P-256" | "P-384" | "P-521", Curve>> = {
  "P-256": {
    opensslName: "prime256v1",
    order: 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n,
    scalarOctets: 32,
  },
  "P-384": {
    opensslName: "secp384r1",
    order:
      0xffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973n,
    scalarOctets: 48,
  },
  "P-521": {
    opensslName: "secp521r1",
    order:
      0x1fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409n,
    scalarOctets: 66,
  },
};

/** An ECDSA signature as its two numbers. */
interface Scalars {
  readonly r: bigint;
  readonly s: bigint;
}

/**
 * Signs a digest by ECDSA (FIPS 186-5 §6.4.1). `node:crypto` signs no digest that somebody else has made, and takes a
 * nonce of its own.
 */
export function signDigest(
  { opensslName, order, scalarOctets }: Curve,
  d: bigint,
  digest: bigint,
  nonce: bigint,
): Scalars {
  const pair = createECDH(opensslName);
  pair.setPrivateKey(octetsOf(nonce, scalarOctets));
  // The point without its first octet, which says that both coordinates follow.
  const r = numberOf(pair.getPublicKey().subarray(1, 1 + scalarOctets)) % order;
  return { r, s: (inverse(nonce, order) * (digest + r * d)) % order };
}
