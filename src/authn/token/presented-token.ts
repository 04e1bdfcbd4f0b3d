import { quoted, rejectCredential } from "../credential-rejection.ts";
import type { TrustedIssuer } from "../trusted-issuer.ts";
import { parseBearerToken } from "./bearer-token.ts";
import { createJsonWebSignatureParser, type JsonWebSignature } from "./json-web-signature.ts";

/** The token of a request, with the issuer that it names. Nothing in it is proved yet. */
export interface PresentedToken {
  /** As the caller sent it, for the API server that reviews it. */
  readonly text: string;
  readonly jws: JsonWebSignature;
  readonly issuer: TrustedIssuer;
}

/**
 * Reads the token of a request once, for all checks of it.
 *
 * @param authorization The header as fetch gives it.
 * @throws CaError `credential-missing`, `credential-rejected` (`form`, `issuer`).
 */
export type TokenReader = (authorization: string | null) => PresentedToken;

/** Finds the issuer of a token by its name, byte for byte. */
export function createTokenReader(issuers: readonly TrustedIssuer[]): TokenReader {
  const byName = new Map<unknown, TrustedIssuer>(issuers.map((issuer) => [issuer.name, issuer]));
  const parseJsonWebSignature = createJsonWebSignatureParser();
  return (authorization) => {
    const text = parseBearerToken(authorization);
    const jws = parseJsonWebSignature(text);
    const { iss } = jws.claims;
    const issuer = byName.get(iss);
    if (issuer) return { text, jws, issuer };
    throw rejectCredential("issuer", `the token is of an unknown issuer: ${quoted(iss)}`);
  };
}
