import { CaError, type CredentialCheck } from "../foundation/errors.ts";

/** Rejects a credential, naming the check that failed; the caller never learns which. */
export function rejectCredential(check: CredentialCheck, detail: string, cause?: unknown): CaError {
  return new CaError({ reason: "credential-rejected", check }, detail, cause);
}
