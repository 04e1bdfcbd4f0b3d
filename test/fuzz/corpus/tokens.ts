import { createPublicKey } from "node:crypto";
import type { JWK } from "jose";
import { type FixedKey, fixedKey } from "./fixed-keys.ts";
import { signForJws } from "./fixed-signature.ts";

/** The issuer of every token of the corpus. */
export const issuerName = "https://a.test";

/** The instant at which tokens of the corpus are judged; they are valid then. */
export const judgedAt = new Date("2026-11-21T12:00:00.250Z");

/** A key of the issuer, and the header of the tokens that it signs. */
interface TokenSigner {
  readonly key: FixedKey;
  readonly header: { readonly alg: string; readonly kid: string };
}

const signer = (kind: FixedKey["kind"], alg: string): TokenSigner => ({
  key: fixedKey(kind, "issuer"),
  header: { alg, kid: `a-${alg}` },
});

/** One signer of each algorithm whose signatures can be the same in every run. */
export const tokenSigners: readonly TokenSigner[] = [
  signer("RSA", "RS256"),
  signer("P-256", "ES256"),
  signer("Ed25519", "EdDSA"),
];

/** The JWK Set that the issuer publishes. */
export const issuerJwks: { keys: JWK[] } = {
  keys: tokenSigners.map(({ key, header }) => ({
    ...(createPublicKey(key.privateKey).export({ format: "jwk" }) as JWK),
    kid: header.kid,
  })),
};

/** The account of every valid token. */
export const account = { namespace: "foo", name: "bar" };

/** The claims of a projected ServiceAccount token. */
export const accountClaims = {
  aud: ["istio-ca"],
  exp: 1_795_264_000,
  iat: 1_795_262_000,
  iss: issuerName,
  jti: "5f3f1d0a-7c55-4a53-9b73-2f6d0a3a1b11",
  "kubernetes.io": {
    namespace: account.namespace,
    node: { name: "node-1", uid: "55d4cb0f-6a8a-4b6e-a0a6-0d3a5f6a8a11" },
    pod: { name: "bar-0", uid: "2d5b7f6a-0f0e-4bb5-8a3f-6a0f2f3c4d21" },
    serviceaccount: { name: account.name, uid: "9a8b7c6d-5e4f-4a3b-8c2d-1e0f9a8b7c6d" },
  },
  nbf: 1_795_262_000,
  sub: `system:serviceaccount:${account.namespace}:${account.name}`,
};

/** A compact JWS over any header and payload, however broken. */
export function signedToken({ key }: TokenSigner, header: string, payload: string): string {
  const signed = [header, payload].map((part) => Buffer.from(part).toString("base64url")).join(".");
  return `${signed}.${signForJws(key, Buffer.from(signed)).toString("base64url")}`;
}
