import { randomBytes } from "node:crypto";
import { toX509Signature } from "../../../src/pki/signature-writer.ts";
import { curves, numberOf, octetsOf, signDigest } from "../ecdsa.ts";
import { generateSigner } from "../pki/csr.ts";

const p256 = curves["P-256"];

/** A key of P-256 that signs digests of SHA-256, as services keep it. */
export function createDigestSigner() {
  const { privateKey, spki } = generateSigner("EC-P256");
  const { d, x, y } = privateKey.export({ format: "jwk" });
  const number = numberOf(Buffer.from(`${d}`, "base64url"));
  const raw = (digest: Uint8Array): Uint8Array<ArrayBuffer> => {
    const nonce = (numberOf(randomBytes(40)) % (p256.order - 1n)) + 1n;
    const { r, s } = signDigest(p256, number, numberOf(digest), nonce);
    return new Uint8Array(Buffer.concat([octetsOf(r, 32), octetsOf(s, 32)]));
  };
  return {
    jwk: { kty: "EC", crv: "P-256", x: `${x}`, y: `${y}` },
    spki,
    /** The signature as JWS has it. */
    raw,
    /** The signature as X.509 has it. */
    der: (digest: Uint8Array): Buffer => Buffer.from(toX509Signature(raw(digest), 32)),
  };
}
