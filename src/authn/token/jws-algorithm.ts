import {
  ecdsa,
  ed25519,
  rsaPkcs1,
  rsaPss,
  type SignatureScheme,
} from "../../pki/signature-algorithm.ts";

/** The signature algorithms that a token may use (RFC 7518 §3.1, RFC 8037 §3.1): neither `none` nor a symmetric one. */
export type JwsAlgorithm =
  | "RS256"
  | "RS384"
  | "RS512"
  | "PS256"
  | "PS384"
  | "PS512"
  | "ES256"
  | "ES384"
  | "ES512"
  | "EdDSA";

/** How each algorithm signs. */
export const jwsSchemes: Readonly<Record<JwsAlgorithm, SignatureScheme>> = {
  RS256: rsaPkcs1("SHA-256"),
  RS384: rsaPkcs1("SHA-384"),
  RS512: rsaPkcs1("SHA-512"),
  PS256: rsaPss("SHA-256"),
  PS384: rsaPss("SHA-384"),
  PS512: rsaPss("SHA-512"),
  ES256: ecdsa("P-256", "SHA-256"),
  ES384: ecdsa("P-384", "SHA-384"),
  ES512: ecdsa("P-521", "SHA-512"),
  EdDSA: ed25519,
};

/**
 * The algorithms that a key may verify, by its `kty` and, if it has one, its `crv`. The key decides,
 * never the token (RFC 8725 §3.1).
 */
export const algorithmsOfKey: ReadonlyMap<string, readonly JwsAlgorithm[]> = new Map([
  ["RSA", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]],
  ["EC P-256", ["ES256"]],
  ["EC P-384", ["ES384"]],
  ["EC P-521", ["ES512"]],
  ["OKP Ed25519", ["EdDSA"]],
]);
