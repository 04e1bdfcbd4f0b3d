import { Code, ConnectError } from "@connectrpc/connect";
import type { RpcRequest } from "../rpc.ts";

/** A unary call as a method sees it. */
export interface UnaryCall {
  readonly header: Headers;
  /** Aborted, with a ConnectError as its reason, when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /** What was left of the caller's deadline when the call came. */
  readonly timeoutMs: number | undefined;
  /** Reads the message, in protobuf: what a method refuses before, it never reads. */
  readonly message: () => Promise<Uint8Array>;
}

/** Answers a call with a message in protobuf, or throws a ConnectError; anything else is a fault. */
export type UnaryMethod = (call: UnaryCall) => Promise<Uint8Array>;

/**
 * Has a method answer a request.
 *
 * @param messageIn Takes the message out of the whole body.
 * @throws What the method throws, and ConnectError for a body that is none.
 */
export async function answerUnary(
  { header, signal: gone, body }: RpcRequest,
  timeoutMs: number | undefined,
  method: UnaryMethod,
  messageIn: (body: Uint8Array) => Uint8Array,
): Promise<Uint8Array> {
  const { signal, end } = withDeadline(gone, timeoutMs);
  const message = async () => messageIn(await whole(body(signal)));
  try {
    return await method({ header, signal, timeoutMs, message });
  } finally {
    end();
  }
}

/** What a caller is told of an error: of a fault, only that it was one. */
export function asConnectError(error: unknown): ConnectError {
  return error instanceof ConnectError ? error : new ConnectError("internal error", Code.Internal);
}

/** A body comes in one piece, if it comes. */
async function whole(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  for await (const octets of body) return octets;
  return new Uint8Array();
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
  return {
    signal: AbortSignal.any([gone, deadline.signal]),
    end: () => clearTimeout(timer),
  };
}
