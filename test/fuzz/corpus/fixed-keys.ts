import { createECDH, createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import type { Octets } from "../../testkit/der/mutation.ts";
import { curves, numberOf, octetsOf } from "../../testkit/ecdsa.ts";
import { fixedOctets } from "./fixed-octets.ts";
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
