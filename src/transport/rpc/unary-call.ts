import { Code, ConnectError } from "@connectrpc/connect";
import { type AnswerFields, type HeaderFields, RetryAfter } from "../../foundation/headers.ts";
import { Deadline } from "./deadline.ts";
import { RequestBody } from "./request-body.ts";
import type { RpcRequest } from "./rpc.ts";

/** A unary call as a method sees it. */
export interface UnaryCall {
  readonly header: HeaderFields;
  /** Aborted, with a ConnectError as its reason, when the caller has hung up or its deadline has passed. */
  readonly signal: AbortSignal;
  /** Ends when the signal aborts, or after the longest time that any call may take. */
  readonly deadline: Deadline;
  /** The time from the beginning of the call to the caller's deadline; `undefined` without one. */
  readonly timeoutMs: number | undefined;
  /** Reads the message, in protobuf. A method that refuses the caller first never reads it. */
  readonly message: () => Promise<Uint8Array>;
}

/** Answers a call with a message in protobuf. A ConnectError is a refusal, any other error a fault. */
export type UnaryMethod = (call: UnaryCall) => Promise<Uint8Array>;

/**
 * Answers a request by a method, within the caller's deadline and 30 seconds. The body is read only if the method reads the message.
 *
 * @param messageIn Takes the message out of the whole body.
 * @throws Whatever the method throws, and ConnectError for a malformed body.
 */
export async function answerUnary(
  { header, signal: gone, body }: RpcRequest,
  timeoutMs: number | undefined,
  method: UnaryMethod,
  messageIn: (body: Uint8Array) => Uint8Array,
): Promise<Uint8Array> {
  const { signal, end } = withDeadline(gone, timeoutMs);
  return Deadline.within(signal, (deadline) => {
    const message = async () => messageIn(await deadline.wait(body(), RequestBody.tooSlow));
    return method({ header, signal, deadline, timeoutMs, message });
  }).finally(end);
}

/** Returns a ConnectError as it is. Any other error, even a CaError, becomes an internal error without its message. */
export function asConnectError(error: unknown): ConnectError {
  return error instanceof ConnectError ? error : new ConnectError("internal error", Code.Internal);
}

/** The `retry-after` of an error, its only metadata; empty without one. */
export function retryAfterOf({ metadata }: ConnectError): AnswerFields {
  const value = metadata.get(RetryAfter.header);
  return value === null ? {} : { [RetryAfter.header]: value };
}

function withDeadline(
  gone: AbortSignal,
  timeoutMs: number | undefined,
): { readonly signal: AbortSignal; readonly end: () => void } {
  if (timeoutMs === undefined) return { signal: gone, end: () => {} };
  const deadline = new AbortController();
  const expire = (): void =>
    deadline.abort(new ConnectError("deadline exceeded", Code.DeadlineExceeded));
  if (timeoutMs <= 0) expire();
  const timer = setTimeout(expire, timeoutMs);
  return { signal: AbortSignal.any([gone, deadline.signal]), end: () => clearTimeout(timer) };
}
