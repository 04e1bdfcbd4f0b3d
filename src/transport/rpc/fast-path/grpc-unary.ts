import { Code, ConnectError } from "@connectrpc/connect";
import { parseGrpcTimeout } from "../../../foundation/http/timeout-header.ts";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import {
  compressedFlag,
  frameHeadOctets,
  isPlainFrame,
  parseFrames,
  requireKnownFlags,
  toFrame,
} from "../grpc-frames.ts";
import type { RpcRequest, RpcResponse } from "../rpc.ts";
import { answerUnary, asConnectError, type UnaryMethod } from "./unary-call.ts";

const timeoutHeader = "grpc-timeout";

/**
 * Whether this is native gRPC as Istio's clients send it: in protobuf, not compressed (gRPC over HTTP/2,
 * Requests).
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

/** Answers a call that {@link isGrpcUnary} recognises (gRPC over HTTP/2, Responses). */
export async function answerGrpc(request: RpcRequest, method: UnaryMethod): Promise<RpcResponse> {
  const header = new Headers({ "content-type": request.header.get("content-type") ?? "" });
  try {
    const timeoutMs = parseGrpcTimeout(request.header.get(timeoutHeader) ?? "");
    const message = await answerUnary(request, timeoutMs, method, messageIn);
    const trailer = new Headers({ "grpc-status": "0" });
    return { status: 200, header, octets: toFrame(message), trailer };
  } catch (error) {
    return { status: 200, header, octets: noMessage, trailer: trailersOf(error) };
  }
}

const noMessage: Bytes = new Uint8Array();

/** The message of a unary call, whose body is one frame without flags. */
function messageIn(body: Uint8Array): Uint8Array {
  if (!isPlainFrame(body)) throw faultOf(body);
  return body.subarray(frameHeadOctets);
}

/** The fault of a body that is not one frame without flags. */
function faultOf(body: Uint8Array): ConnectError {
  requireKnownFlags(body, compressedFlag);
  const [frame] = parseFrames(body);
  if (!frame) return new ConnectError("a call without a message", Code.Unimplemented);
  return frame.flags & compressedFlag
    ? new ConnectError("a compressed message without its encoding", Code.Internal)
    : new ConnectError("more than one message", Code.Unimplemented);
}

/** The trailers that tell a caller why its call failed. */
function trailersOf(error: unknown): Headers {
  const { code, rawMessage } = asConnectError(error);
  // Status-Message: all but printable ASCII is percent-encoded, and the percent sign itself.
  const message = rawMessage.replace(/[^\x20-\x24\x26-\x7e]/gu, encodeURIComponent);
  return new Headers({ "grpc-status": String(code), "grpc-message": message });
}
