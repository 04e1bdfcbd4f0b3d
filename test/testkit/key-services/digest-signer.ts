import { toX509Signature } from "../../../src/pki/signature-writer.ts";

// P-256 (FIPS 186-5): neither WebCrypto nor node:crypto signs a digest that somebody else has made.
const p = 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n;
const n = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const g = {
  x: 0x6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296n,
  y: 0x4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5n,
};

type Point = typeof g | undefined;

const modulo = (a: bigint, m: bigint): bigint => ((a % m) + m) % m;

function inverse(a: bigint, m: bigint): bigint {
  let [r, s, x, y] = [modulo(a, m), m, 1n, 0n];
  while (s > 0n) {
    const q = r / s;
    [r, s, x, y] = [s, r - q * s, y, x - q * y];
  }
  return modulo(x, m);
}

function add(a: Point, b: Point): Point {
  if (!a || !b) return a ?? b;
  if (a.x === b.x && a.y !== b.y) return undefined;
  const slope =
    a.x === b.x
      ? (3n * a.x * a.x - 3n) * inverse(2n * a.y, p)
      : (b.y - a.y) * inverse(b.x - a.x, p);
  const x = modulo(slope * slope - a.x - b.x, p);
  return { x, y: modulo(slope * (a.x - x) - a.y, p) };
}

function multiply(k: bigint): Point {
  let [sum, power]: [Point, Point] = [undefined, g];
  for (let left = k; left > 0n; left >>= 1n) {
    if (left & 1n) sum = add(sum, power);
    power = add(power, power);
  }
  return sum;
}

const bigOf = (octets: Uint8Array): bigint => BigInt(`0x${Buffer.from(octets).toString("hex")}`);
const octetsOf = (value: bigint): Buffer =>
  Buffer.from(value.toString(16).padStart(64, "0"), "hex");

/** A key of P-256 that signs digests of SHA-256, as services keep it. */
export async function createDigestSigner() {
  const curve = { name: "ECDSA", namedCurve: "P-256" };
  const { privateKey, publicKey } = await crypto.subtle.generateKey(curve, true, [
    "sign",
    "verify",
  ]);
  const jwk = await crypto.subtle.exportKey("jwk", privateKey);
  const d = bigOf(Buffer.from(`${jwk.d}`, "base64url"));
  const raw = (digest: Uint8Array): Uint8Array<ArrayBuffer> => {
    const k = modulo(bigOf(crypto.getRandomValues(new Uint8Array(32))), n - 1n) + 1n;
    const r = modulo(multiply(k)?.x ?? 0n, n);
    const s = modulo(inverse(k, n) * (bigOf(digest) + r * d), n);
    return new Uint8Array(Buffer.concat([octetsOf(r), octetsOf(s)]));
  };
  return {
    jwk: { kty: "EC", crv: "P-256", x: `${jwk.x}`, y: `${jwk.y}` },
    spki: Buffer.from(await crypto.subtle.exportKey("spki", publicKey)),
    /** The signature as JWS has it. */
    raw,
    /** The signature as X.509 has it. */
    der: (digest: Uint8Array): Buffer => Buffer.from(toX509Signature(raw(digest), 32)),
  };
}
