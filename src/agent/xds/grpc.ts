import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http2";

/** The codes of gRPC that the proxy sets or tells apart. */
export const grpcCode = {
  ok: 0,
  canceled: 1,
  unknown: 2,
  deadlineExceeded: 4,
  permissionDenied: 7,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

export interface GrpcStatus {
  readonly code: number;
  readonly message: string;
  /** `google.rpc.Status` in base64, handed on as it came. */
  readonly details?: string;
}

/** The status in the trailers of a server, or in the head of an answer that has nothing but a status. */
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

export function toTrailers({ code, message, details }: GrpcStatus): OutgoingHttpHeaders {
  return {
    "grpc-status": String(code),
    ...(message !== "" && { "grpc-message": encodeMessage(message) }),
    ...(details !== undefined && { "grpc-status-details-bin": details }),
  };
}

/** Octets other than printable ASCII are encoded, and so is the percent sign ("Responses" of gRPC over HTTP/2). */
function encodeMessage(message: string): string {
  return message.replace(/[^ -$&-~]+/gu, (letters) =>
    Buffer.from(letters, "utf8").toString("hex").replace(/../g, "%$&"),
  );
}

/** A message that is not percent-encoded as it should be is left as it is. */
function decodeMessage(message: string): string {
  return message.replace(/(?:%[0-9a-f]{2})+/gi, (encoded) =>
    Buffer.from(encoded.replaceAll("%", ""), "hex").toString("utf8"),
  );
}

/** The status of an answer that is not gRPC's (gRPC over HTTP/2, "HTTP2 status code to gRPC"). */
export function statusOfHttp(status: number): GrpcStatus {
  const codes: ReadonlyMap<number, number> = new Map([
    [400, grpcCode.internal],
    [401, grpcCode.unauthenticated],
    [403, grpcCode.permissionDenied],
    [404, grpcCode.unimplemented],
    [429, grpcCode.unavailable],
    [502, grpcCode.unavailable],
    [503, grpcCode.unavailable],
    [504, grpcCode.unavailable],
  ]);
  return { code: codes.get(status) ?? grpcCode.unknown, message: `HTTP status ${status}` };
}

/** The status of a stream that ended without one ("Errors" of gRPC over HTTP/2). */
export function statusOfReset(errorCode: number): GrpcStatus {
  const message = `the stream ended with HTTP/2 error ${errorCode}`;
  switch (errorCode) {
    case constants.NGHTTP2_NO_ERROR:
      return { code: grpcCode.unavailable, message: closing };
    case constants.NGHTTP2_CANCEL:
      return { code: grpcCode.canceled, message };
    case constants.NGHTTP2_REFUSED_STREAM:
      return { code: grpcCode.unavailable, message };
    case constants.NGHTTP2_ENHANCE_YOUR_CALM:
      return { code: grpcCode.resourceExhausted, message };
    default:
      return { code: grpcCode.internal, message };
  }
}

const closing = "transport is closing";

/** Whether a stream may end so in normal operation, such as when istiod restarts. */
export function isExpected({ code, message }: GrpcStatus): boolean {
  if (code === grpcCode.unavailable) return /client disconnected|is closing|EOF/.test(message);
  return code === grpcCode.ok || code === grpcCode.canceled || code === grpcCode.deadlineExceeded;
}

/** One octet of flags, four of length. */
const headOctets = 5;

/**
 * The longest message that the proxy takes, from Envoy or from istiod. It holds a message as a whole, so this bounds
 * its memory; pilot-agent has no bound. The clusters of the largest meshes have some tens of MiB.
 */
export const longestMessageOctets = 64 * 1024 * 1024;

/** A frame that the proxy does not pass on. The stream ends with this status. */
export class FrameError extends Error {
  override readonly name = "FrameError";
  readonly status: GrpcStatus;

  constructor(code: number, message: string) {
    super(message);
    this.status = { code, message };
  }
}

export function toFrame(message: Uint8Array): Buffer {
  const frame = Buffer.alloc(headOctets + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, headOctets);
  return frame;
}

export const messageIn = (frame: Buffer): Buffer => frame.subarray(headOctets);

/** Cuts a stream of octets into whole frames, each with its head. It holds no more than one of them. */
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

  /** Makes room for the message that the head announces. Its memory is not touched before its octets come. */
  #makeRoom(): void {
    const head = this.#frame;
    if (head[0] !== 0) throw new FrameError(grpcCode.internal, "a frame is compressed or damaged");
    const length = head.readUInt32BE(1);
    if (length > longestMessageOctets) {
      const sentence = `a message of ${this.#sender} has ${length} octets, and the agent takes ${longestMessageOctets}`;
      throw new FrameError(grpcCode.resourceExhausted, sentence);
    }
    this.#frame = Buffer.allocUnsafe(headOctets + length);
    head.copy(this.#frame);
  }
}
