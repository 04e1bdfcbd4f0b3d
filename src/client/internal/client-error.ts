import { Code, ConnectError } from "@connectrpc/connect";
import { isRefusal } from "../../foundation/backoff.ts";
import { causeOf } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/fetch.ts";
import { RetryAfter } from "../../foundation/headers.ts";

/**
 * Why a call failed.
 *
 * - `refused`: the CA refuses this caller or its request. The same call gets the same answer.
 * - `unavailable`: the CA did not answer, or cannot now. The same call may succeed later.
 * - `invalid-response`: the answer cannot be read, has expired, is for another key or SPIFFE ID, or leads to no root of
 *   the trust bundle. The program does not get it.
 */
export type ClientFault = "refused" | "unavailable" | "invalid-response";

/** A failed call. Its message holds no token, key or CSR. */
export class ClientError extends Error {
  override readonly name = "ClientError";
  readonly fault: ClientFault;
  /** The wait that the CA asks for; 0 without one. */
  readonly retryAfterSeconds: number;

  constructor(fault: ClientFault, message: string, cause?: unknown, retryAfterSeconds = 0) {
    super(message, { cause });
    this.fault = fault;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/**
 * Rejects a response of the CA.
 * @throws ClientError `invalid-response`, always.
 */
export function rejectResponse(message: string, cause?: unknown): never {
  throw new ClientError("invalid-response", message, cause);
}

const longestSentence = 200;

/**
 * Throws a ClientError for a failed call. Its message quotes nothing but the CA's sentence, cut at 200
 * characters.
 */
export function failCall(error: unknown): never {
  if (error instanceof FetchError) {
    throw new ClientError("unavailable", `the CA ${error.message}`, error, error.retryAfterSeconds);
  }
  const { code, cause, rawMessage, metadata } = ConnectError.from(error);
  // Connect sets a cause on what the platform threw, and none on an error that the CA answered.
  const said =
    cause === undefined
      ? `the CA answered ${Code[code]}: ${rawMessage.slice(0, longestSentence)}`
      : `no usable answer from the CA: ${causeOf(cause)}`;
  const fault = isRefusal(code) ? "refused" : "unavailable";
  const seconds = fault === "refused" ? 0 : RetryAfter.parse(metadata.get(RetryAfter.header));
  throw new ClientError(fault, said, error, seconds);
}
