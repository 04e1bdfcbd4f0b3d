import type { Platform, RpcRequest, RpcResponse } from "../rpc.ts";
import { answerConnect, isConnectUnary } from "./connect-unary.ts";
import { answerGrpc, isGrpcUnary } from "./grpc-unary.ts";
import type { UnaryMethod } from "./unary-call.ts";

/** Answers a call by a method, in the protocol that it came in. Never rejects for what a caller does. */
export type FastPath = (request: RpcRequest, method: UnaryMethod) => Promise<RpcResponse>;

/**
 * How to answer a call as most clients send it; nothing for a rarer one. Connect can answer all of
 * them: this is for speed alone.
 */
export function fastPathFor(request: RpcRequest, { hasTrailers }: Platform): FastPath | undefined {
  if (isConnectUnary(request)) return answerConnect;
  return hasTrailers && isGrpcUnary(request) ? answerGrpc : undefined;
}
