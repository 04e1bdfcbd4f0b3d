import {
  createECDH,
  createHash,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
} from "node:crypto";
import type { Octets } from "../../testkit/der/mutation.ts";
import { fixedOctets, numberOf, octetsOf } from "./fixed-numbers.ts";
import { generateRsaJwk } from "./fixed-rsa.ts";

/** A kind of key in the corpus. */
export type FixedKeyKind = "P-256" | "P-384" | "P-521" | "RSA" | "Ed25519";

/** A key that is the same in every run, so that a case of a campaign can be reproduced. */
export interface FixedKey {
  readonly kind: FixedKeyKind;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  /** SubjectPublicKeyInfo. */
  readonly spki: Octets;
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

/** Derives a key from its name alone. These keys protect nothing. */
export function fixedKey(kind: FixedKeyKind, name: string): FixedKey {
  const privateKey = createPrivateKey({ key: jwkOf(kind, `${kind} ${name}`), format: "jwk" });
  const publicKey = createPublicKey(privateKey);
  const spki = Buffer.from(publicKey.export({ type: "spki", format: "der" }));
  return { kind, privateKey, publicKey, spki };
}

function jwkOf(kind: FixedKeyKind, name: string): JsonWebKey & { [name: string]: unknown } {
  switch (kind) {
    case "RSA":
      return generateRsaJwk(name);
    case "Ed25519":
      return ed25519Jwk(fixedOctets(name, 32));
    default:
      return ecJwk(kind, numberOf(fixedOctets(name, 64)));
  }
}

function ecJwk(crv: keyof typeof curves, number: bigint): JsonWebKey & Record<string, string> {
  const { opensslName, order, scalarOctets } = curves[crv];
  const d = octetsOf((number % (order - 1n)) + 1n, scalarOctets);
  const pair = createECDH(opensslName);
  pair.setPrivateKey(d);
  const point = pair.getPublicKey();
  const x = point.subarray(1, 1 + scalarOctets).toString("base64url");
  const y = point.subarray(1 + scalarOctets).toString("base64url");
  return { kty: "EC", crv, d: d.toString("base64url"), x, y };
}

/** PKCS#8 of Ed25519 is a fixed head and the seed (RFC 8410 §7). */
function ed25519Jwk(seed: Buffer): JsonWebKey & Record<string, unknown> {
  const head = Buffer.from("302e020100300506032b657004220420", "hex");
  const key = Buffer.concat([head, seed]);
  return { ...createPrivateKey({ key, format: "der", type: "pkcs8" }).export({ format: "jwk" }) };
}

/** A digest of octets as a number. */
export const digestNumber = (hash: string, octets: Uint8Array): bigint =>
  numberOf(createHash(hash).update(octets).digest());
