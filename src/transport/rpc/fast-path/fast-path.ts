import type { Platform, RpcRequest, RpcResponse } from "../rpc.ts";
import { answerConnect, isConnectUnary } from "./connect-unary.ts";
import { answerGrpc, answerGrpcWeb, isGrpcUnary, isGrpcWebUnary } from "./grpc-unary.ts";
import type { UnaryMethod } from "./unary-call.ts";

/** Answers a call by a method, in the caller's protocol. Nothing that a caller sends makes it reject. */
export type FastPath = (request: RpcRequest, method: UnaryMethod) => Promise<RpcResponse>;

/**
 * The fast path for a call in the form that most clients send, or `undefined` for any other. It is there
 * for speed alone: the fallback can answer every call.
 */
export function fastPathFor(request: RpcRequest, { hasTrailers }: Platform): FastPath | undefined {
  if (isGrpcWebUnary(request)) return answerGrpcWeb;
  if (isConnectUnary(request)) return answerConnect;
  return hasTrailers && isGrpcUnary(request) ? answerGrpc : undefined;
}
