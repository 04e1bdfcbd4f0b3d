import { jsonIn, Members } from "../../foundation/json.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { ClientError, rejectResponse } from "./client-error.ts";

/** A token of this workload for some audiences. */
export interface JwtSvid {
  readonly token: string;
  readonly spiffeId: string;
  readonly audiences: readonly string[];
  readonly expiresAt: Date;
  /** Half of its life. */
  readonly renewsAt: Date;
}

/**
 * Reads the JWT-SVID of a response without verifying its signature, which the recipients of the token do.
 *
 * @param audiences Sorted.
 * @throws ClientError `invalid-response` for a token of other audiences, or one that has expired.
 */
export function readJwtSvid(token: string, audiences: readonly string[], now: Date): JwtSvid {
  const { sub, aud, exp } = claimsOf(token);
  const isForThem = [aud].flat().toSorted().join("\n") === audiences.join("\n");
  const expiresAt = new Date(1000 * Number(exp));
  // An invalid date is not later.
  if (!isForThem || !(now < expiresAt)) rejectResponse("the token is for others, or has expired");
  const renewsAt = halfway(now, expiresAt);
  return { token, spiffeId: `${sub}`, audiences, expiresAt, renewsAt };
}

const halfway = (now: Date, end: Date): Date => new Date((now.getTime() + end.getTime()) / 2);

/** Reads the claims of a token without verifying its signature; `{}` for a credential that is no token. */
export function claimsOf(token: string): Members {
  const [, payload = ""] = token.split(".", 2);
  return Members.of(jsonIn(Base64.parseUrl(payload) ?? ""));
}

/** A program chooses the audiences, and may choose many. */
const maximumTokens = 100;

/** Holds each token until half of its life is over, and until its end while the CA is unavailable. */
export function holdTokens(
  request: (audiences: string[]) => Promise<JwtSvid>,
  clock: () => Date,
): (audiences: readonly string[]) => Promise<JwtSvid> {
  const held = new Map<string, JwtSvid>();
  return async (audiences) => {
    const wanted = [...new Set(audiences)].toSorted();
    const key = wanted.join("\n");
    const before = held.get(key);
    if (before && clock() < before.renewsAt) return before;
    // What the CA refuses now must not live on here.
    held.delete(key);
    const svid = await request(wanted).catch((error: unknown) => {
      const now = clock();
      const isAway = error instanceof ClientError && error.fault === "unavailable";
      if (!isAway || !before || now >= before.expiresAt) throw error;
      return { ...before, renewsAt: halfway(now, before.expiresAt) };
    });
    if (held.size >= maximumTokens) held.clear();
    held.set(key, svid);
    return svid;
  };
}
