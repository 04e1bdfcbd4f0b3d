import { rejectCredential } from "../../foundation/errors.ts";
import type { Members } from "../../foundation/json-members.ts";

/** How far in the future `nbf` and `iat` may lie, for issuers whose clocks are ahead. `exp` gets no leeway. */
export const leewaySeconds = 60;

/** The registered claims of a token (RFC 7519 §4.1). */
export const RegisteredClaims = {
  /**
   * Requires that a token is valid at `now`: `exp` is there, and `nbf` and `iat` are not in the future.
   *
   * @throws CaError `credential-rejected` (`form`, `time`).
   */
  requireTime(claims: Members, now: Date): void {
    const { exp, nbf = 0, iat = 0 } = claims;
    if (!isInstant(exp)) throw rejectCredential("form", "exp is missing, or no time");
    if (!isInstant(nbf) || !isInstant(iat)) throw rejectCredential("form", "nbf or iat is no time");
    const seconds = now.getTime() / 1000;
    if (exp <= seconds) throw rejectCredential("time", "the token has expired");
    const latest = seconds + leewaySeconds;
    if (nbf > latest) throw rejectCredential("time", "the token is not valid yet");
    if (iat > latest) throw rejectCredential("time", "the token is from the future");
  },

  /** Whether a claim is a text of at most 1024 characters. */
  isText(value: unknown): value is string {
    return typeof value === "string" && value.length <= maximumTextLength;
  },

  /**
   * Requires one of the accepted audiences. `aud` is a string or a list of strings (RFC 7519 §4.1.3); Istio
   * accepts only the list.
   *
   * @throws CaError `credential-rejected` (`form`, `audience`).
   */
  requireAudience(claims: Members, accepted: readonly string[]): void {
    if (!RegisteredClaims.audiences(claims).some((audience) => accepted.includes(audience))) {
      throw rejectCredential("audience", "the token is meant for another audience");
    }
  },

  /**
   * Reads `aud` (RFC 7519 §4.1.3), one string or a list, as a list.
   * @throws CaError `credential-rejected` (`form`) for any other value, or none, and for a list of too many audiences.
   */
  audiences({ aud }: Members): readonly string[] {
    const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
    if (audiences.length <= maximumAudiences && audiences.every(RegisteredClaims.isText))
      return audiences;
    throw rejectCredential("form", "aud is neither text nor a list of texts");
  },
};

/** No name in Kubernetes is longer, nor is an audience. */
const maximumTextLength = 1024;
const maximumAudiences = 64;

/** Whether a claim is a NumericDate (RFC 7519 §2), up to the year 9999. */
function isInstant(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= 253402300799;
}
