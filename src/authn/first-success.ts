import { CaError } from "../errors.ts";
import type { Authenticator } from "./authenticator.ts";

/**
 * Tries authenticators in their order; the first success wins, as in Istio. When none succeeds, the
 * first that found a credential says what was wrong with it.
 */
export function firstSuccess(authenticators: readonly Authenticator[]): Authenticator {
  return async (credentials, now) => {
    let failure: CaError | undefined;
    for (const authenticate of authenticators) {
      try {
        return await authenticate(credentials, now);
      } catch (error) {
        if (!(error instanceof CaError)) throw error;
        if (!failure || failure.refusal.reason === "credential-missing") failure = error;
      }
    }
    throw failure ?? new CaError({ reason: "credential-missing" }, "no way to authenticate");
  };
}
