import { jsonIn, Members } from "../../foundation/json-members.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { ClientError, rejectResponse } from "./client-error.ts";

/** A token of this workload for some audiences. */
export interface JwtSvid {
  readonly token: string;
  readonly spiffeId: string;
  readonly audiences: readonly string[];
  readonly expiresAt: Date;
  /** The middle between the arrival of the token and `expiresAt`. */
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
  // A comparison with an invalid date is false.
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

/** The most tokens in the cache: a program chooses the audiences, and may choose many. */
const maximumTokens = 100;

/**
 * Caches one token for each set of audiences until half of its life is over, and until it expires while the CA is
 * unavailable. A full cache is emptied. Calls at the same time request a token each.
 */
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
    // If the CA refuses, the former token must not be returned again.
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
