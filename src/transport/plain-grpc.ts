import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type IstioCertificateRequest,
  IstioCertificateRequestSchema,
  type IstioCertificateResponse,
  IstioCertificateResponseSchema,
} from "../gen/istio/v1/auth/ca_pb.ts";
import type { Bytes } from "../pki/bytes.ts";
import type { CertificateAuthority } from "./certificate-authority.ts";
import { answering, authenticate, type Call, createCertificate } from "./certificate-call.ts";
import type { RpcRequest, RpcResponse } from "./certificate-rpc.ts";
import { maximumBodyOctets } from "./request-body.ts";

/**
 * Whether this is native gRPC as every client of Istio's sends it: one message in protobuf, not
 * compressed, no deadline. Connect answers everything else; this is for speed alone.
 */
export function isPlainGrpc({ method, header }: RpcRequest): boolean {
  const contentType = header.get("content-type");
  return (
    method === "POST" &&
    (contentType === "application/grpc" || contentType === "application/grpc+proto") &&
    (header.get("grpc-encoding") ?? "identity") === "identity" &&
    !header.has("grpc-timeout")
  );
}

/** Answers such a call. Never rejects for what a caller does. */
export async function answerGrpc(
  ca: CertificateAuthority,
  call: Call,
  request: RpcRequest,
): Promise<RpcResponse> {
  const { signal, header } = request;
  const headers = new Headers({ "content-type": header.get("content-type") ?? "" });
  try {
    await answering(call, signal, () => authenticate(ca, call, header));
    const message = parseMessage(await read(request, call));
    const answer = await answering(call, signal, () =>
      createCertificate(ca, call, message, signal),
    );
    const octets = frame(create(IstioCertificateResponseSchema, answer));
    return { status: 200, header: headers, octets, trailer: new Headers({ "grpc-status": "0" }) };
  } catch (error) {
    return { status: 200, header: headers, octets: nothing, trailer: trailersOf(error) };
  }
}

const headOctets = 5;
const nothing: Bytes = new Uint8Array();

async function read(request: RpcRequest, call: Call): Promise<Uint8Array> {
  for await (const whole of request.body(() => call.signal)) return whole;
  return new Uint8Array();
}

/** The message in the one frame that a unary call consists of. */
function parseMessage(body: Uint8Array): IstioCertificateRequest {
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
  return decode(body.subarray(headOctets));
}

function decode(message: Uint8Array): IstioCertificateRequest {
  try {
    return fromBinary(IstioCertificateRequestSchema, message, { readUnknownFields: false });
  } catch (error) {
    // The parser's own sentence may quote the message.
    throw new ConnectError(
      "the message does not parse",
      Code.Internal,
      undefined,
      undefined,
      error,
    );
  }
}

function frame(answer: IstioCertificateResponse): Bytes {
  const message = toBinary(IstioCertificateResponseSchema, answer);
  const framed = new Uint8Array(headOctets + message.length);
  new DataView(framed.buffer).setUint32(1, message.length);
  framed.set(message, headOctets);
  return framed;
}

/** How the call ended; of a fault, only that it was one. */
function trailersOf(error: unknown): Headers {
  const { code, rawMessage } =
    error instanceof ConnectError ? error : new ConnectError("internal error", Code.Internal);
  // Percent-encoding of all but printable ASCII, as gRPC over HTTP/2 wants it.
  const message = rawMessage.replace(/[^\x20-\x24\x26-\x7e]/gu, encodeURIComponent);
  return new Headers({ "grpc-status": String(code), "grpc-message": message });
}
