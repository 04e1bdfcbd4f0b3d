import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { type AnswerFields, CallTimeout } from "../../foundation/headers.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import {
  compressedFlag,
  frameHeadOctets,
  isPlainFrame,
  parseFrames,
  requireStrictFrames,
  toFrame,
  toFrames,
  trailersFlag,
} from "./grpc-frames.ts";
import type { HttpAbilities, RpcRequest, RpcResponse } from "./rpc.ts";
import { answerUnary, asConnectError, retryAfterOf, type UnaryMethod } from "./unary-call.ts";

/** Answers a call by a method, in the caller's protocol. Nothing that a caller sends makes it reject. */
type FastPath = (request: RpcRequest, method: UnaryMethod) => Promise<RpcResponse>;

/**
 * The fast path for a call in the form that most clients send, or `undefined` for any other. It only
 * saves time: the fallback can answer every call.
 */
export function fastPathFor(
  request: RpcRequest,
  { hasTrailers }: HttpAbilities,
): FastPath | undefined {
  if (isGrpcWebUnary(request)) return answerGrpcWeb;
  if (isConnectUnary(request)) return answerConnect;
  return hasTrailers && isGrpcUnary(request) ? answerGrpc : undefined;
}

const protobuf = "application/proto";
const json = "application/json";
const connectTimeout = "connect-timeout-ms";

/**
 * Whether this is a unary call of Connect as gateways and agents send it: in protobuf, not compressed
 * (Connect protocol, Unary-Request).
 */
function isConnectUnary({ method, header }: RpcRequest): boolean {
  return (
    method === "POST" &&
    header.get("content-type") === protobuf &&
    (header.get("content-encoding") ?? "identity") === "identity" &&
    CallTimeout.parseConnect(header.get(connectTimeout) ?? "0") !== undefined
  );
}

/** Answers a call that {@link isConnectUnary} recognises (Connect protocol, Unary-Response). */
async function answerConnect(request: RpcRequest, method: UnaryMethod): Promise<RpcResponse> {
  try {
    const timeoutMs = CallTimeout.parseConnect(request.header.get(connectTimeout) ?? "");
    const octets = await answerUnary(request, timeoutMs, method, (body) => body);
    return response(200, { "content-type": protobuf }, octets);
  } catch (error) {
    const refusal = asConnectError(error);
    const header = { "content-type": json, ...retryAfterOf(refusal) };
    return response(codeToHttpStatus(refusal.code), header, errorToJsonBytes(refusal, undefined));
  }
}

function response(status: number, fields: AnswerFields, octets: Uint8Array): RpcResponse {
  const header = { ...fields, "content-length": String(octets.length) };
  return { status, header, octets: octets as Bytes };
}

const grpcTimeout = "grpc-timeout";
const webType = "application/grpc-web+proto";

/** Whether this is native gRPC as Istio's clients send it: in protobuf, not compressed (gRPC over HTTP/2, Requests). */
function isGrpcUnary(request: RpcRequest): boolean {
  const contentType = request.header.get("content-type");
  return (
    (contentType === "application/grpc" || contentType === "application/grpc+proto") &&
    isPlain(request)
  );
}

/**
 * Whether this is gRPC-Web as Cloudflare's edge makes it of native gRPC: in protobuf, neither compressed
 * nor in base64 (gRPC-Web, Protocol differences).
 */
function isGrpcWebUnary(request: RpcRequest): boolean {
  const contentType = request.header.get("content-type");
  return (contentType === "application/grpc-web" || contentType === webType) && isPlain(request);
}

function isPlain({ method, header }: RpcRequest): boolean {
  return (
    method === "POST" &&
    (header.get("grpc-encoding") ?? "identity") === "identity" &&
    CallTimeout.parseGrpc(header.get(grpcTimeout) ?? "0S") !== undefined
  );
}

/** Answers a call that {@link isGrpcUnary} recognises (gRPC over HTTP/2, Responses). */
async function answerGrpc(request: RpcRequest, method: UnaryMethod): Promise<RpcResponse> {
  const header = { "content-type": request.header.get("content-type") ?? "" };
  try {
    const message = await answerFrame(request, method, compressedFlag);
    const trailer = { "grpc-status": "0" };
    return { status: 200, header, octets: toFrame(message), trailer };
  } catch (error) {
    return {
      status: 200,
      header,
      octets: noMessage,
      trailer: statusOf(error, percentEncoded),
    };
  }
}

/** Answers a call that {@link isGrpcWebUnary} recognises: the trailers are the last frame of the body. */
async function answerGrpcWeb(request: RpcRequest, method: UnaryMethod): Promise<RpcResponse> {
  const header = { "content-type": webType };
  try {
    const message = await answerFrame(request, method, compressedFlag | trailersFlag);
    return { status: 200, header, octets: toFrames([0, message], [trailersFlag, success]) };
  } catch (error) {
    // A trailer is a line of text here, so a colon in a message is encoded as well.
    const trailers = trailerLines(statusOf(error, encodeURIComponent));
    return { status: 200, header, octets: toFrames([trailersFlag, trailers]) };
  }
}

const noMessage: Bytes = new Uint8Array();

const trailerLines = (trailers: Readonly<Record<string, string>>): Uint8Array => {
  const lines = Object.entries(trailers).map(([name, value]) => `${name}: ${value}\r\n`);
  return new TextEncoder().encode(lines.join(""));
};

const success: Uint8Array = trailerLines({ "grpc-status": "0" });

/** @param knownFlags The flags that the protocol of the call defines. */
function answerFrame(
  request: RpcRequest,
  method: UnaryMethod,
  knownFlags: number,
): Promise<Uint8Array> {
  const timeoutMs = CallTimeout.parseGrpc(request.header.get(grpcTimeout) ?? "");
  return answerUnary(request, timeoutMs, method, (body) =>
    isPlainFrame(body) ? body.subarray(frameHeadOctets) : messageAmong(body, knownFlags),
  );
}

/**
 * The message of a body for which {@link isPlainFrame} is false.
 *
 * A client of gRPC-Web may send trailers too, which are ignored.
 */
function messageAmong(body: Uint8Array, knownFlags: number): Uint8Array {
  requireStrictFrames(body, knownFlags);
  const frames = parseFrames(body);
  const [frame, second] = frames.filter(({ flags }) => (flags & trailersFlag) === 0);
  // The flags of a second message do not matter: its presence is the error.
  const read = frames.filter((each) => each === frame || each.flags & trailersFlag);
  if (read.some(({ flags }) => flags & compressedFlag)) {
    throw new ConnectError("a compressed frame without its encoding", Code.Internal);
  }
  if (!frame) throw new ConnectError("a call without a message", Code.Unimplemented);
  if (second) throw new ConnectError("more than one message", Code.Unimplemented);
  return frame.message;
}

/** The status by which a caller learns why its call failed. */
function statusOf(error: unknown, encode: (message: string) => string): Record<string, string> {
  const refusal = asConnectError(error);
  const { code, rawMessage } = refusal;
  const status = { "grpc-status": String(code), "grpc-message": encode(rawMessage) };
  return { ...status, ...retryAfterOf(refusal) };
}

/** Status-Message: all but printable ASCII is percent-encoded, and the percent sign itself. */
function percentEncoded(message: string): string {
  return message.replace(/[^\x20-\x24\x26-\x7e]/gu, encodeURIComponent);
}
