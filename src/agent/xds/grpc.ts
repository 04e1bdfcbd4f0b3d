import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http2";
import { Code } from "@connectrpc/connect";
import { codeFromHttpStatus } from "@connectrpc/connect/protocol-connect";

/** The code of success, which Connect's own codes of gRPC lack. */
export const ok = 0;

/** The end of a gRPC call. */
export interface GrpcStatus {
  readonly code: number;
  readonly message: string;
  /** `google.rpc.Status` in base64, passed on unchanged. */
  readonly details?: string;
}

/** The status in trailers, or in the head of a response without a body (Trailers-Only); `undefined` for none. */
export function parseStatus(headers: IncomingHttpHeaders): GrpcStatus | undefined {
  const code = Number(headers["grpc-status"] ?? Number.NaN);
  if (!Number.isInteger(code)) return undefined;
  const details = headers["grpc-status-details-bin"];
  return {
    code,
    message: decodeMessage(String(headers["grpc-message"] ?? "")),
    ...(typeof details === "string" && { details }),
  };
}

/** Writes a status as gRPC trailers. */
export function toTrailers({ code, message, details }: GrpcStatus): OutgoingHttpHeaders {
  return {
    "grpc-status": String(code),
    ...(message !== "" && { "grpc-message": encodeMessage(message) }),
    ...(details !== undefined && { "grpc-status-details-bin": details }),
  };
}

/** Percent-encodes `%` and everything but printable ASCII ("Responses" of gRPC over HTTP/2). */
function encodeMessage(message: string): string {
  return message.replace(/[^ -$&-~]+/gu, (letters) =>
    Buffer.from(letters, "utf8").toString("hex").replace(/../g, "%$&"),
  );
}

/** Decodes percent-encoding. Malformed escapes stay as they are. */
function decodeMessage(message: string): string {
  return message.replace(/(?:%[0-9a-f]{2})+/gi, (encoded) =>
    Buffer.from(encoded.replaceAll("%", ""), "hex").toString("utf8"),
  );
}

/** The status of an answer that is not gRPC's (gRPC over HTTP/2, "HTTP2 status code to gRPC"). */
export const statusOfHttp = (status: number): GrpcStatus => ({
  code: codeFromHttpStatus(status),
  message: `HTTP status ${status}`,
});

/** The status of a stream that ended without one ("Errors" of gRPC over HTTP/2). */
export function statusOfReset(errorCode: number): GrpcStatus {
  const message = `the stream ended with HTTP/2 error ${errorCode}`;
  switch (errorCode) {
    case constants.NGHTTP2_NO_ERROR:
      return { code: Code.Unavailable, message: closing };
    case constants.NGHTTP2_CANCEL:
      return { code: Code.Canceled, message };
    case constants.NGHTTP2_REFUSED_STREAM:
      return { code: Code.Unavailable, message };
    case constants.NGHTTP2_ENHANCE_YOUR_CALM:
      return { code: Code.ResourceExhausted, message };
    default:
      return { code: Code.Internal, message };
  }
}

const closing = "transport is closing";

/** Whether this end of a stream is normal, as when istiod restarts. */
export function isExpected({ code, message }: GrpcStatus): boolean {
  if (code === Code.Unavailable) return /client disconnected|is closing|EOF/.test(message);
  return code === ok || code === Code.Canceled || code === Code.DeadlineExceeded;
}

/** The head of a frame: one octet of flags, four of length. */
const headOctets = 5;

/**
 * The longest message that the proxy takes, from Envoy or from istiod. It buffers each message completely, so this
 * bounds its memory; pilot-agent has no bound. In the largest meshes, all clusters take some tens of MiB.
 */
export const longestMessageOctets = 64 * 1024 * 1024;

/** Thrown for a frame that the proxy does not pass on. The stream ends with its status. */
export class FrameError extends Error {
  override readonly name = "FrameError";
  readonly status: GrpcStatus;

  constructor(code: number, message: string) {
    super(message);
    this.status = { code, message };
  }
}

/** Puts an uncompressed message into a gRPC frame. */
export function toFrame(message: Uint8Array): Buffer {
  const frame = Buffer.alloc(headOctets + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, headOctets);
  return frame;
}

/** The message of a gRPC frame, without its head and without a copy. */
export const messageIn = (frame: Buffer): Buffer => frame.subarray(headOctets);

/** Splits a stream of octets into complete frames, each with its head. It buffers at most one. */
export class Frames {
  readonly #sender: string;
  #frame = Buffer.alloc(headOctets);
  #filled = 0;

  /** @param sender The peer, for the sentence of a {@link FrameError}. */
  constructor(sender: string) {
    this.#sender = sender;
  }

  /** @returns The frames that are now complete. @throws FrameError as soon as the head of a frame is known. */
  take(chunk: Buffer): readonly Buffer[] {
    const complete: Buffer[] = [];
    for (let at = 0; at < chunk.length; ) {
      const copied = chunk.copy(this.#frame, this.#filled, at);
      at += copied;
      this.#filled += copied;
      if (this.#filled === headOctets) this.#makeRoom();
      if (this.#filled < this.#frame.length) continue;
      complete.push(this.#frame);
      this.#frame = Buffer.alloc(headOctets);
      this.#filled = 0;
    }
    return complete;
  }

  /** Allocates memory for the announced length, which the system maps only as octets arrive. @throws FrameError */
  #makeRoom(): void {
    const head = this.#frame;
    if (head[0] !== 0) throw new FrameError(Code.Internal, "a frame is compressed or damaged");
    const length = head.readUInt32BE(1);
    if (length > longestMessageOctets) {
      const sentence = `a message of ${this.#sender} has ${length} octets, and the agent takes ${longestMessageOctets}`;
      throw new FrameError(Code.ResourceExhausted, sentence);
    }
    this.#frame = Buffer.allocUnsafe(headOctets + length);
    head.copy(this.#frame);
  }
}
