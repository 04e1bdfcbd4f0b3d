import { toBase64Url } from "../encoding/base64.ts";
import { fromX509Signature } from "../signature-algorithm.ts";
import type { OpenTokenKey } from "./token-key.ts";

/** The claims of a JWT-SVID (SPIFFE JWT-SVID §3). Instants are in seconds since 1970. */
export interface TokenClaims {
  readonly iss: string;
  readonly sub: string;
  readonly aud: readonly string[];
  readonly iat: number;
  readonly exp: number;
  readonly jti: string;
}

const encoder = new TextEncoder();
const headers = new WeakMap<OpenTokenKey, string>();

/** A JWT as a compact JWS (RFC 7515 §3.1): the header has `alg`, `kid` and `typ`, and nothing else. */
export async function signToken(key: OpenTokenKey, claims: TokenClaims): Promise<string> {
  const signed = `${headerOf(key)}.${toBase64Url(encoder.encode(JSON.stringify(claims)))}`;
  const { algorithm, dsaEncoding, sign } = key.signingKey;
  const made = sign(encoder.encode(signed));
  const signature = made instanceof Promise ? new Uint8Array(await made) : made;
  const raw =
    dsaEncoding === "der" ? fromX509Signature(signature, algorithm, "ieee-p1363") : signature;
  return `${signed}.${toBase64Url(raw)}`;
}

function headerOf(key: OpenTokenKey): string {
  const known = headers.get(key);
  if (known !== undefined) return known;
  const header = { alg: key.algorithm, kid: key.id, typ: "JWT" };
  const made = toBase64Url(encoder.encode(JSON.stringify(header)));
  headers.set(key, made);
  return made;
}
