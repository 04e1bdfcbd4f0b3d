import { CaError } from "../../foundation/errors.ts";
import type { Authenticator } from "../authenticator.ts";

/**
 * Tries the client certificate first, as istiod does, and the token if there is no good certificate.
 * When both fail, the refusal is the token's, unless the caller sent none.
 */
export function certificateFirst(
  byCertificate: Authenticator,
  byToken: Authenticator,
): Authenticator {
  const byEither: Authenticator = async (credentials, now) => {
    try {
      return await byCertificate(credentials, now);
    } catch (error) {
      if (!(error instanceof CaError)) throw error;
      return byToken(credentials, now).catch((failure: unknown) => {
        throw isMissing(failure) ? error : failure;
      });
    }
  };
  return (credentials, now) =>
    (credentials.clientCertificate ? byEither : byToken)(credentials, now);
}

function isMissing(failure: unknown): boolean {
  return failure instanceof CaError && failure.refusal.reason === "credential-missing";
}
