import { createECDH } from "node:crypto";
import { toX509Signature } from "../../../src/pki/signature-writer.ts";

/** The order of P-256 (FIPS 186-5). */
const n = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

const modulo = (a: bigint, m: bigint): bigint => ((a % m) + m) % m;

function inverse(a: bigint, m: bigint): bigint {
  let [r, s, x, y] = [modulo(a, m), m, 1n, 0n];
  while (s > 0n) {
    const q = r / s;
    [r, s, x, y] = [s, r - q * s, y, x - q * y];
  }
  return modulo(x, m);
}

const bigOf = (octets: Uint8Array): bigint => BigInt(`0x${Buffer.from(octets).toString("hex")}`);
const octetsOf = (value: bigint): Buffer =>
  Buffer.from(value.toString(16).padStart(64, "0"), "hex");

/**
 * A key of P-256 that signs digests of SHA-256, as services keep it: neither WebCrypto nor node:crypto signs a digest
 * that somebody else has made.
 */
export async function createDigestSigner() {
  const curve = { name: "ECDSA", namedCurve: "P-256" };
  const { privateKey, publicKey } = await crypto.subtle.generateKey(curve, true, [
    "sign",
    "verify",
  ]);
  const jwk = await crypto.subtle.exportKey("jwk", privateKey);
  const d = bigOf(Buffer.from(`${jwk.d}`, "base64url"));
  const raw = (digest: Uint8Array): Uint8Array<ArrayBuffer> => {
    const ephemeral = createECDH("prime256v1");
    // The point without its first octet, which says that both coordinates follow.
    const r = modulo(bigOf(ephemeral.generateKeys().subarray(1, 33)), n);
    const k = bigOf(ephemeral.getPrivateKey());
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
