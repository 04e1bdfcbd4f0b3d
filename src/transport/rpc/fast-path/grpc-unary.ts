import { Code, ConnectError } from "@connectrpc/connect";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import { maximumBodyOctets } from "../request-body.ts";
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
    return { status: 200, header, octets: framed(message), trailer };
  } catch (error) {
    return { status: 200, header, octets: nothing, trailer: trailersOf(error) };
  }
}

const headOctets = 5;
const nothing: Bytes = new Uint8Array();

/** The message in the one frame that a unary call consists of. */
function messageIn(body: Uint8Array): Uint8Array {
  if (body.length === 0) throw new ConnectError("a call without a message", Code.Unimplemented);
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  if (body.length < headOctets) throw new ConnectError("half a frame", Code.InvalidArgument);
  const octets = view.getUint32(1);
  if (octets > maximumBodyOctets) {
    const detail = `message must not exceed ${maximumBodyOctets} bytes`;
    throw new ConnectError(detail, Code.ResourceExhausted);
  }
  if (view.getUint8(0) !== 0) throw new ConnectError("a frame with flags", Code.Internal);
  if (octets > body.length - headOctets) {
    throw new ConnectError("half a frame", Code.InvalidArgument);
  }
  if (octets < body.length - headOctets) {
    throw new ConnectError("more than one message", Code.Unimplemented);
  }
  return body.subarray(headOctets);
}

function framed(message: Uint8Array): Bytes {
  const frame = new Uint8Array(headOctets + message.length);
  new DataView(frame.buffer).setUint32(1, message.length);
  frame.set(message, headOctets);
  return frame;
}

/** How the call ended. */
function trailersOf(error: unknown): Headers {
  const { code, rawMessage } = asConnectError(error);
  // Percent-encoding of all but printable ASCII, as gRPC over HTTP/2 wants it.
  const message = rawMessage.replace(/[^\x20-\x24\x26-\x7e]/gu, encodeURIComponent);
  return new Headers({ "grpc-status": String(code), "grpc-message": message });
}
