import { CaError } from "../../foundation/errors.ts";
import type { Authenticator } from "../authenticator.ts";

/**
 * Istio's order: a client certificate, and the token when there is none, or none that is good. When
 * both fail, the token says why if there is one.
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
