import { type GrpcStatus, grpcCode } from "./grpc-status.ts";

/** One octet of flags, four of length. */
export const frameHeadOctets = 5;

/** A frame that the proxy does not pass on. The stream ends with this status. */
export class FrameError extends Error {
  override readonly name = "FrameError";
  readonly status: GrpcStatus;

  constructor(code: number, message: string) {
    super(message);
    this.status = { code, message };
  }
}

/** @throws FrameError for flags: the proxy offers no compression. */
export function frameLength(head: Buffer): number {
  if (head[0] !== 0) throw new FrameError(grpcCode.internal, "a frame is compressed or damaged");
  return head.readUInt32BE(1);
}

/** A frame with this message. */
export function toFrame(message: Uint8Array): Buffer {
  const frame = Buffer.alloc(frameHeadOctets + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, frameHeadOctets);
  return frame;
}
