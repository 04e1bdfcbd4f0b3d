import { Code, ConnectError } from "@connectrpc/connect";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import { compressedFlag, parseFrames, requireKnownFlags, toFrame } from "../grpc-frames.ts";
import type { RpcRequest, RpcResponse } from "../rpc.ts";
import { parseGrpcTimeout } from "../timeout-header.ts";
import { answerUnary, asConnectError, type UnaryMethod } from "./unary-call.ts";

const timeoutHeader = "grpc-timeout";

/**
 * Whether this is native gRPC as clients of Istio's send it: one message in protobuf, not compressed.
 */
export function isGrpcUnary({ method, header }: RpcRequest): boolean {
  const contentType = header.get("content-type");
  return (
    method === "POST" &&
    (contentType === "application/grpc" || contentType === "application/grpc+proto") &&
    (header.get("grpc-encoding") ?? "identity") === "identity" &&
    parseGrpcTimeout(header.get(timeoutHeader) ?? "0S") !== undefined
  );
}

/** Answers such a call. Never rejects for what a caller does. */
export async function answerGrpc(request: RpcRequest, method: UnaryMethod): Promise<RpcResponse> {
  const header = new Headers({ "content-type": request.header.get("content-type") ?? "" });
  try {
    const timeoutMs = parseGrpcTimeout(request.header.get(timeoutHeader) ?? "");
    const message = await answerUnary(request, timeoutMs, method, messageIn);
    const trailer = new Headers({ "grpc-status": "0" });
    return { status: 200, header, octets: toFrame(message), trailer };
  } catch (error) {
    return { status: 200, header, octets: nothing, trailer: trailersOf(error) };
  }
}

const nothing: Bytes = new Uint8Array();

/** The message of a unary call, which consists of one frame. */
function messageIn(body: Uint8Array): Uint8Array {
  requireKnownFlags(body, compressedFlag);
  const [frame, ...others] = parseFrames(body);
  if (!frame) throw new ConnectError("a call without a message", Code.Unimplemented);
  if (frame.flags & compressedFlag) {
    throw new ConnectError("a compressed message without its encoding", Code.Internal);
  }
  if (others.length > 0) throw new ConnectError("more than one message", Code.Unimplemented);
  return frame.message;
}

/** How the call ended. */
function trailersOf(error: unknown): Headers {
  const { code, rawMessage } = asConnectError(error);
  // Percent-encoding of all but printable ASCII, as gRPC over HTTP/2 wants it.
  const message = rawMessage.replace(/[^\x20-\x24\x26-\x7e]/gu, encodeURIComponent);
  return new Headers({ "grpc-status": String(code), "grpc-message": message });
}
