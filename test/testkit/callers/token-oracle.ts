import { constants, createPublicKey, type KeyObject, verify, type webcrypto } from "node:crypto";
import type { Claims } from "./tokens.ts";

/** A JWK Set, as an issuer publishes it. */
export interface PublishedKeys {
  readonly keys: readonly webcrypto.JsonWebKey[];
}

interface Verified {
  readonly header: Claims;
  readonly claims: Claims;
}

/**
 * Verifies a compact JWS by `node:crypto` alone: the second opinion on what jose and `src/pki/jose` accept.
 *
 * @returns `undefined` for a token that no key of the set signed, or that demands an extension (RFC 7515 §4.1.11).
 */
export function verifiedByNode(token: string, { keys }: PublishedKeys): Verified | undefined {
  const [, signed = "", signature = ""] = /^([\w-]+\.[\w-]+)\.([\w-]+)$/.exec(token) ?? [];
  const [header, claims] = signed.split(".").map(objectIn);
  if (!header || !claims || "crit" in header) return undefined;
  const isSigned = keys.some(
    (jwk) => isNamed(jwk, header) && isSignedBy(jwk, String(header["alg"]), signed, signature),
  );
  return isSigned ? { header, claims } : undefined;
}

function objectIn(part: string): Claims | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString());
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

const isNamed = (jwk: webcrypto.JsonWebKey, { kid }: Claims): boolean =>
  kid === undefined || ("kid" in jwk && jwk.kid === kid);

/** The type of key and its curve by the name of the algorithm (RFC 7518 §3.1, RFC 8037 §3.1). */
const keyKinds: Readonly<Record<string, string>> = {
  ES256: "ec prime256v1",
  ES384: "ec secp384r1",
  ES512: "ec secp521r1",
  EdDSA: "ed25519",
};

function isSignedBy(
  jwk: webcrypto.JsonWebKey,
  algorithm: string,
  signed: string,
  signature: string,
): boolean {
  // In workerd, `verify` takes a key object with options for none.
  const key = { key: { ...jwk }, format: "jwk" as const };
  const [, kind, bits] = /^([RPE]S)(256|384|512)$/.exec(algorithm) ?? [];
  const expected = kind === "RS" || kind === "PS" ? "rsa" : keyKinds[algorithm];
  if (kindOf(createPublicKey(key)) !== expected) return false;
  const padding = kind === "PS" ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING;
  const options = {
    ...key,
    dsaEncoding: "ieee-p1363" as const,
    ...(expected === "rsa" && { padding }),
    ...(kind === "PS" && { saltLength: Number(bits) / 8 }),
  };
  const digest = bits === undefined ? null : `sha${bits}`;
  return verify(digest, Buffer.from(signed), options, Buffer.from(signature, "base64url"));
}

function kindOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): string {
  return [asymmetricKeyType, asymmetricKeyDetails?.namedCurve ?? []].flat().join(" ");
}
