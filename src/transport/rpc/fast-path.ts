import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { type AnswerFields, CallTimeout, type HeaderFields } from "../../foundation/headers.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { retryAfterOf } from "./connect-error.ts";
import { Deadline } from "./deadline.ts";
import {
  compressedFlag,
  frameHeadOctets,
  isPlainFrame,
  parseFrames,
  requireStrictFrames,
  toFrames,
  trailersFlag,
} from "./grpc-frames.ts";
import { RequestBody } from "./request-body.ts";
import type { HttpAbilities, RpcRequest, RpcResponse } from "./rpc.ts";

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
type UnaryMethod = (call: UnaryCall) => Promise<Uint8Array>;

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
  const { method, header } = request;
  if (method !== "POST") return undefined;
  switch (header.get("content-type")) {
    case "application/grpc-web":
    case webType:
      return isPlainGrpc(header) ? answerGrpcWeb : undefined;
    case protobuf:
      return isPlainConnect(header) ? answerConnect : undefined;
    case "application/grpc":
    case "application/grpc+proto":
      return hasTrailers && isPlainGrpc(header) ? answerGrpc : undefined;
    default:
      return undefined;
  }
}

const protobuf = "application/proto";
const json = "application/json";
const connectTimeout = "connect-timeout-ms";

/** Whether a call of Connect is not compressed (Connect protocol, Unary-Request). Gateways and agents send it so. */
function isPlainConnect(header: HeaderFields): boolean {
  return (
    (header.get("content-encoding") ?? "identity") === "identity" &&
    CallTimeout.parseConnect(header.get(connectTimeout) ?? "0") !== undefined
  );
}

/** Answers a unary call of Connect in protobuf (Connect protocol, Unary-Response). */
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

/** Whether a call of gRPC or gRPC-Web is not compressed (gRPC over HTTP/2, Requests). Istio's clients send it so. */
function isPlainGrpc(header: HeaderFields): boolean {
  return (
    (header.get("grpc-encoding") ?? "identity") === "identity" &&
    CallTimeout.parseGrpc(header.get(grpcTimeout) ?? "0S") !== undefined
  );
}

/** Answers native gRPC in protobuf (gRPC over HTTP/2, Responses). */
async function answerGrpc(request: RpcRequest, method: UnaryMethod): Promise<RpcResponse> {
  const header = { "content-type": request.header.get("content-type") ?? "" };
  try {
    const message = await answerFrame(request, method, compressedFlag);
    const trailer = { "grpc-status": "0" };
    return { status: 200, header, octets: toFrames([0, message]), trailer };
  } catch (error) {
    const trailer = statusOf(error, percentEncoded);
    return { status: 200, header, octets: new Uint8Array(), trailer };
  }
}

/**
 * Answers gRPC-Web in protobuf, as Cloudflare's edge makes it of native gRPC. The trailers are the last frame of the
 * body (gRPC-Web, Protocol differences).
 */
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

/**
 * Answers a request by a method, within the caller's deadline and 30 seconds. The body is read only if the method reads the message.
 *
 * @param messageIn Takes the message out of the whole body.
 * @throws Whatever the method throws, and ConnectError for a malformed body.
 */
async function answerUnary(
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

/** Returns a ConnectError as it is. Any other error, even a CaError, becomes an internal error without its message. */
function asConnectError(error: unknown): ConnectError {
  return error instanceof ConnectError ? error : new ConnectError("internal error", Code.Internal);
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
