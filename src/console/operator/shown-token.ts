import { rejectCredential } from "../../authn/credential-rejection.ts";
import type { ConsoleToken } from "../../config/console-keys.ts";
import { parseBase64 } from "../../pki/encoding/base64.ts";
import { fingerprintOf } from "../../pki/encoding/fingerprint.ts";

const longestHeader = 2048;

/**
 * The token in an `Authorization` header: a bearer token, or the password of Basic, with which a browser
 * answers the challenge of a page. The name beside the password means nothing.
 *
 * @throws CaError `credential-rejected` (`form`).
 */
export function shownToken(authorization: string): string {
  if (authorization.length > longestHeader) throw malformed();
  const [, scheme = "", credentials = ""] = /^(\S+) +(\S+)$/.exec(authorization) ?? [];
  if (/^bearer$/i.test(scheme)) return credentials;
  if (!/^basic$/i.test(scheme)) throw malformed();
  const decoded = new TextDecoder().decode(parseBase64(credentials));
  const colon = decoded.indexOf(":");
  if (colon < 0) throw malformed();
  return decoded.slice(colon + 1);
}

const malformed = () =>
  rejectCredential("form", "neither a bearer token nor the password of a name");

/** Requires one of the tokens. @throws CaError `credential-rejected` (`key`). */
export type RequireToken = (token: string) => Promise<void>;

/** Digests are compared, and all of them to the end, so the time says nothing about a token. */
export function createTokenVerifier(tokens: readonly ConsoleToken[]): RequireToken {
  let known: readonly string[] | undefined;
  return async (token) => {
    known ??= tokens.map((each) => ("sha256" in each ? each.sha256 : digestOf(each.token)));
    const shown = digestOf(token);
    const isKnown = known.map((each) => isSame(each, shown)).includes(true);
    if (!isKnown) throw rejectCredential("key", "not a token of the console");
  };
}

const digestOf = (token: string): string => fingerprintOf(new TextEncoder().encode(token));

function isSame(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return difference === 0;
}
