import type { IssuerKeys } from "../../authn/token/issuer-keys.ts";
import type { ConsoleConfiguration } from "../../config/console-keys.ts";
import { CaError } from "../../foundation/errors.ts";
import { accessHeader, createAccessVerifier } from "./access-token.ts";
import { createTokenVerifier, shownToken } from "./shown-token.ts";

/** Lets operators in, and nobody else. */
export interface OperatorGuard {
  /**
   * @throws CaError `credential-missing`, `credential-rejected`, `key-provider-unreachable`,
   *   `too-many-waiting`.
   */
  readonly require: (headers: Headers, now: Date) => Promise<void>;
  /** Whether a browser may ask a person for a token. */
  readonly asksForToken: boolean;
  /** The sentence for a caller without a credential. */
  readonly sentence: string;
}

/**
 * Lets in whoever shows one of the tokens, or a token of Cloudflare Access. Of a request with both, the
 * `Authorization` header counts, because the caller itself has sent it.
 *
 * @param accessKeys The keys of the team, where Access is configured.
 */
export function createOperatorGuard(
  { tokens, access }: ConsoleConfiguration,
  accessKeys: IssuerKeys | undefined,
): OperatorGuard {
  const requireToken = createTokenVerifier(tokens);
  const requireAccess = access && accessKeys && createAccessVerifier(access, accessKeys);
  return {
    asksForToken: tokens.length > 0,
    sentence: "the console is for operators alone: show a token, or come through Cloudflare Access",
    require: async (headers, now) => {
      const authorization = headers.get("authorization");
      const accessToken = headers.get(accessHeader);
      if (tokens.length > 0 && authorization !== null) {
        return requireToken(shownToken(authorization));
      }
      if (requireAccess && accessToken !== null) return requireAccess(accessToken, now);
      throw new CaError({ reason: "credential-missing" }, "the console needs a credential");
    },
  };
}

/** An IPv4 or IPv6 address or `localhost`, with a port or without. */
const addressForm = /^(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;

/**
 * Lets in whoever reaches a port that is for operators, by an address. A browser that has looked up a
 * stranger's name, and found this port there, would hand the page to that stranger (DNS rebinding).
 */
export const portGuard: OperatorGuard = {
  asksForToken: false,
  sentence:
    "without CONSOLE_TOKENS the console answers under an address or localhost, and not under a name",
  require: async (headers) => {
    const host = headers.get("host");
    // Browsers always name a host in HTTP/1.1, and speak no HTTP/2 without TLS.
    if (host === null || addressForm.test(host)) return;
    throw new CaError({ reason: "credential-missing" }, "the console was asked for under a name");
  },
};

/**
 * Whether another site's page has sent the request, other than by a link. The answer would be of no use to
 * it, and costs work.
 */
export function isFromElsewhere(headers: Headers): boolean {
  const site = headers.get("sec-fetch-site");
  const isNavigation = headers.get("sec-fetch-mode") === "navigate";
  return (site === "cross-site" || site === "same-site") && !isNavigation;
}
