import { checkPrimeSync } from "node:crypto";
import { inverse, numberOf, octetsOf } from "../../testkit/ecdsa.ts";
import { fixedOctets } from "./fixed-octets.ts";

const primeOctets = 128;
const exponent = 65_537n;

/** A private key of 2048 bits whose primes are the first ones after numbers that the name gives. */
export function generateRsaJwk(name: string): Record<string, string> {
  const p = primeAfter(`${name} p`);
  const q = primeAfter(`${name} q`);
  const d = inverse(exponent, (p - 1n) * (q - 1n));
  const numbers = {
    n: p * q,
    e: exponent,
    d,
    p,
    q,
    dp: d % (p - 1n),
    dq: d % (q - 1n),
    qi: inverse(q, p),
  };
  const members = Object.entries(numbers).map(([member, number]) => [member, base64Url(number)]);
  return { kty: "RSA", ...Object.fromEntries(members) };
}

/** The two highest bits are set, so that a product of two primes has 2048 bits. */
function primeAfter(name: string): bigint {
  const highest = 3n << BigInt(8 * primeOctets - 2);
  let candidate = numberOf(fixedOctets(name, primeOctets)) | highest | 1n;
  while (candidate % exponent === 1n || !checkPrimeSync(candidate)) candidate += 2n;
  return candidate;
}

function base64Url(number: bigint): string {
  const length = Math.ceil(number.toString(16).length / 2);
  return octetsOf(number, length).toString("base64url");
}
