import documented from "../../vectors/platform-claims.json" with { type: "json" };
import type { Claims } from "./tokens.ts";

/** The claims that platforms document for their tokens. Nobody here has their keys. */
export const platformClaims = documented satisfies Record<string, Claims>;

/** A token of a platform, minted a minute ago for five more. */
export function claimsOf(platform: keyof typeof platformClaims, now: Date): Claims {
  const issuedAt = Math.floor(now.getTime() / 1000) - 60;
  return { ...platformClaims[platform], iat: issuedAt, exp: issuedAt + 360 };
}
