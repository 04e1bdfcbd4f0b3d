import type { AuthorityView } from "../../ca/authority-view.ts";
import type { TokenPolicy } from "../../ca/issuance/product.ts";
import { toPublicJwk } from "../../pki/jose/token-key.ts";

/** The path of the discovery document below the issuer (OpenID Connect Discovery 1.0 §4). */
export const discoveryPath = "/.well-known/openid-configuration";

export const keySetPath = "/.well-known/jwks.json";

/**
 * How long a cache may keep a document. Relying parties that ask in parallel need some time; the hour that a key
 * is published beyond a day covers it.
 */
export const documentMaximumAgeSeconds = 300;

/** What relying parties outside of SPIFFE read to verify JWT-SVIDs. */
interface JwtDocuments {
  readonly discovery: string;
  /** A JWK Set; empty before the first key is published. */
  readonly keySet: string;
}

/** The documents of an issuer. Nothing else changes them than the keys that are published. */
export async function jwtDocuments(
  { issuer, algorithm }: TokenPolicy,
  { tokenKeys }: Pick<AuthorityView, "tokenKeys">,
): Promise<JwtDocuments> {
  const algorithms = new Set([algorithm, ...tokenKeys.map((key) => key.algorithm)]);
  const keys = await Promise.all(tokenKeys.map(toPublicJwk));
  const discovery = {
    issuer,
    jwks_uri: `${issuer}${keySetPath}`,
    response_types_supported: ["id_token"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: [...algorithms].toSorted(),
  };
  // Several relying parties skip keys of the use `jwt-svid`.
  const published = { keys: keys.map((key) => ({ ...key, use: "sig" })) };
  return {
    discovery: `${JSON.stringify(discovery)}\n`,
    keySet: keys.length > 0 ? `${JSON.stringify(published)}\n` : "",
  };
}

/** The part of an issuer's URL below which its documents are. */
export const issuerPath = ({ issuer }: TokenPolicy): string =>
  new URL(issuer).pathname.replace(/\/$/, "");
