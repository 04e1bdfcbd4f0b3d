import type { RpcRequest, RpcResponse } from "./certificate-service.ts";
import { answerConnect, isPlainConnect } from "./connect-unary.ts";
import { answerGrpc, isPlainGrpc } from "./grpc-unary.ts";
import type { UnaryMethod } from "./unary-call.ts";

/** Answers a call by a method, in the protocol that it came in. Never rejects for what a caller does. */
export type PlainAnswer = (request: RpcRequest, method: UnaryMethod) => Promise<RpcResponse>;

/**
 * How to answer a call as most clients send it; nothing for a rarer one. Connect can answer all of
 * them: this is for speed alone.
 */
export function plainAnswerTo(request: RpcRequest, hasTrailers: boolean): PlainAnswer | undefined {
  if (isPlainConnect(request)) return answerConnect;
  return hasTrailers && isPlainGrpc(request) ? answerGrpc : undefined;
}
