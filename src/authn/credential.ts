import { CaError, type CredentialCheck } from "../foundation/errors.ts";

/** Rejects a credential, naming the check that failed; the caller never learns which. */
export function rejectCredential(check: CredentialCheck, detail: string, cause?: unknown): CaError {
  return new CaError({ reason: "credential-rejected", check }, detail, cause);
}

/** An unverified claim, for the log: cut short, on one line, in quotation marks. */
export function quoted(claim: unknown): string {
  return typeof claim === "string" ? JSON.stringify(claim.slice(0, 80)) : "not a text";
}
