import { Code, ConnectError } from "@connectrpc/connect";
import { ForwardingHeaders } from "../../authn/forwarding-headers.ts";
import { type AnswerFields, RetryAfter } from "../../foundation/headers.ts";
import type { Refusal } from "../../foundation/refusal.ts";

/**
 * The error that a caller receives for a refusal. Its code answers one question, by which Istio's clients
 * decide: would the same request succeed if it were sent again? If so, the metadata says from when on. The
 * message says nothing more.
 *
 * @param now The instant of the call.
 */
export function toConnectError(refusal: Refusal, now: Date): ConnectError {
  switch (refusal.reason) {
    case "credential-missing":
    case "credential-rejected": {
      const isGateways = "check" in refusal && refusal.check === "gateway";
      const sentence = isGateways ? ForwardingHeaders.refusal : "request authentication failed";
      return new ConnectError(sentence, Code.Unauthenticated);
    }
    case "impersonation-denied":
    case "denied":
    case "policy-denied":
      return new ConnectError("caller may not request this identity", Code.PermissionDenied);
    case "signer-unknown":
      return new ConnectError("no such signer", Code.InvalidArgument);
    case "signer-denied":
      return new ConnectError("caller may not use this signer", Code.PermissionDenied);
    case "dns-name-denied":
      return new ConnectError("caller may not request these DNS names", Code.PermissionDenied);
    case "tokens-off":
      return new ConnectError("this authority issues no JWT-SVIDs", Code.Unimplemented);
    case "token-request-malformed":
      return new ConnectError("token request rejected", Code.InvalidArgument);
    case "audience-denied":
      return new ConnectError("caller may not request this audience", Code.PermissionDenied);
    case "csr-malformed":
    case "csr-signature-invalid":
    case "csr-signature-algorithm-unacceptable":
    case "subject-key-unacceptable":
      return new ConnectError("certificate signing request rejected", Code.InvalidArgument);
    case "lifetime-too-long":
      return new ConnectError(
        `validity must not exceed ${refusal.maximumSeconds}s`,
        Code.InvalidArgument,
      );
    case "quota-exceeded":
      return new ConnectError(
        "too many certificates, try again later",
        Code.ResourceExhausted,
        retryAfter(refusal.retryAfterSeconds, now),
      );
    case "request-abandoned":
      return new ConnectError("deadline exceeded", Code.DeadlineExceeded);
    case "no-signing-authority":
    case "store-unreachable":
    case "kek-unavailable":
    case "log-unavailable":
    case "too-many-waiting":
    case "key-provider-unreachable":
    case "cluster-unreachable":
    case "cluster-busy":
      return unavailableError(now);
  }
}

/**
 * The `retry-after` of a refusal. It lies between the wait and twice the wait, in whole seconds, and the
 * millisecond of the call decides where, so that callers that were refused together do not return together.
 */
function retryAfter(seconds: number, now: Date): Record<string, string> {
  const spread = seconds * (1 + now.getUTCMilliseconds() / 1000);
  return { [RetryAfter.header]: String(Math.max(1, Math.ceil(spread))) };
}

/** The `retry-after` of a refusal that may end at any time: two to four seconds. Another replica may answer sooner. */
export const retrySoon = (now: Date): Record<string, string> => retryAfter(2, now);

/** The `retry-after` of an error, its only metadata; empty without one. */
export function retryAfterOf({ metadata }: ConnectError): AnswerFields {
  const value = metadata.get(RetryAfter.header);
  return value === null ? {} : { [RetryAfter.header]: value };
}

/** The public sentence of a CA that cannot answer now. */
export const unavailableSentence = "certificate authority is temporarily unavailable";

/** The refusal of a CA that cannot answer now. */
export function unavailableError(now: Date): ConnectError {
  return new ConnectError(unavailableSentence, Code.Unavailable, retrySoon(now));
}
