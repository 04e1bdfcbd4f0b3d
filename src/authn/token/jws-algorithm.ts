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

/** The parameters with which WebCrypto verifies a signature of each algorithm. */
export const verifyParameters: Readonly<Record<JwsAlgorithm, string | EcdsaParams | RsaPssParams>> =
  {
    RS256: "RSASSA-PKCS1-v1_5",
    RS384: "RSASSA-PKCS1-v1_5",
    RS512: "RSASSA-PKCS1-v1_5",
    PS256: { name: "RSA-PSS", saltLength: 32 },
    PS384: { name: "RSA-PSS", saltLength: 48 },
    PS512: { name: "RSA-PSS", saltLength: 64 },
    ES256: { name: "ECDSA", hash: "SHA-256" },
    ES384: { name: "ECDSA", hash: "SHA-384" },
    ES512: { name: "ECDSA", hash: "SHA-512" },
    EdDSA: "Ed25519",
  };

/**
 * The algorithms that a key may verify, by its `kty` and, if it has one, its `crv`. The key decides,
 * never the token (RFC 8725 §3.1).
 */
export const algorithmsOfKey: Readonly<Record<string, readonly JwsAlgorithm[]>> = {
  RSA: ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  "EC P-256": ["ES256"],
  "EC P-384": ["ES384"],
  "EC P-521": ["ES512"],
  "OKP Ed25519": ["EdDSA"],
};
