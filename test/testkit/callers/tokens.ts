import { base64url, CompactSign, exportJWK, generateKeyPair, type JWK } from "jose";

/** The key with which an issuer signs tokens, and its public JWK. */
export interface TokenKey {
  readonly algorithm: string;
  readonly privateKey: CryptoKey;
  readonly publicJwk: JWK;
}

/** @param algorithm The JOSE name of an algorithm, for which a key is generated. */
export async function createTokenKey(algorithm: string, keyId?: string): Promise<TokenKey> {
  const pair = await generateKeyPair(algorithm, { extractable: true });
  const publicJwk = await exportJWK(pair.publicKey);
  if (keyId !== undefined) publicJwk.kid = keyId;
  return { algorithm, privateKey: pair.privateKey, publicJwk };
}

/** The JWK Set that an issuer publishes. */
export function jwksOf(...keys: readonly TokenKey[]): { keys: JWK[] } {
  return { keys: keys.map(({ publicJwk }) => publicJwk) };
}

/** Claims by name. A token lacks a claim that is `undefined`. */
export type Claims = Readonly<Record<string, unknown>>;

/** The age and the lifetime of the tokens of {@link serviceAccountClaims}. */
const issuedSecondsAgo = 60;
const tokenLifetimeSeconds = 3600;

/** The claims of a projected ServiceAccount token for `system:serviceaccount:<account>` (`ns:name`). */
export function serviceAccountClaims(issuer: string, account: string, now: Date): Claims {
  const [namespace, name] = account.split(":");
  const issuedAt = Math.floor(now.getTime() / 1000) - issuedSecondsAgo;
  return {
    aud: ["istio-ca"],
    exp: issuedAt + tokenLifetimeSeconds,
    iat: issuedAt,
    iss: issuer,
    jti: crypto.randomUUID(),
    "kubernetes.io": {
      namespace,
      node: { name: "node-1", uid: "55d4cb0f-6a8a-4b6e-a0a6-0d3a5f6a8a11" },
      pod: { name: `${name}-0`, uid: "2d5b7f6a-0f0e-4bb5-8a3f-6a0f2f3c4d21" },
      serviceaccount: { name, uid: "9a8b7c6d-5e4f-4a3b-8c2d-1e0f9a8b7c6d" },
    },
    nbf: issuedAt,
    sub: `system:serviceaccount:${account}`,
  };
}

/** A token signed by jose, with a header as an API server writes it: `alg`, and `kid` when the key has one. */
export async function mintToken(key: TokenKey, claims: Claims): Promise<string> {
  const { kid } = key.publicJwk;
  return await new CompactSign(utf8(JSON.stringify(claims)))
    .setProtectedHeader({ alg: key.algorithm, ...(kid !== undefined && { kid }) })
    .sign(key.privateKey);
}

/** A ServiceAccount token as its cluster would sign it, with these changes. */
export function mintAccountToken(
  key: TokenKey,
  issuer: string,
  account: string,
  now: Date,
  changes: Claims = {},
): Promise<string> {
  return mintToken(key, { ...serviceAccountClaims(issuer, account, now), ...changes });
}

/**
 * A token with any header and any payload, even one that jose refuses to make. An RSA key (RS256) or a P-256
 * key (ES256) signs it.
 */
export async function forgeToken(
  key: TokenKey,
  header: Claims | string,
  payload: Claims | string,
): Promise<string> {
  const signed = `${encodePart(header)}.${encodePart(payload)}`;
  const parameters = { name: key.privateKey.algorithm.name, hash: "SHA-256" };
  const signature = await crypto.subtle.sign(parameters, key.privateKey, utf8(signed));
  return `${signed}.${base64url.encode(new Uint8Array(signature))}`;
}

/** Base64url of a text, or of the JSON of an object. */
export function encodePart(part: Claims | string): string {
  return base64url.encode(typeof part === "string" ? part : JSON.stringify(part));
}

const utf8 = (text: string): Uint8Array<ArrayBuffer> =>
  new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;
