import { FrameError, frameHeadOctets, frameLength } from "./grpc-frame.ts";
import { grpcCode } from "./grpc-status.ts";

/** A reconnecting Envoy names every resource that it has: some MiB for the largest meshes. */
const longestRequest = 64 * 1024 * 1024;

/** Cuts a stream of octets into whole frames, each with its head. */
export class RequestFrames {
  #parts: Buffer[] = [];
  #length = 0;

  /** @returns The frames that are now complete. @throws FrameError */
  take(chunk: Buffer): readonly Buffer[] {
    this.#parts.push(chunk);
    this.#length += chunk.length;
    const frames: Buffer[] = [];
    for (;;) {
      const frame = this.#shift();
      if (!frame) return frames;
      frames.push(frame);
    }
  }

  #shift(): Buffer | undefined {
    if (this.#length < frameHeadOctets) return undefined;
    const length = frameHeadOctets + frameLength(this.#peek(frameHeadOctets));
    if (length > longestRequest) {
      throw new FrameError(grpcCode.resourceExhausted, "a request is too long");
    }
    if (this.#length < length) return undefined;
    const whole = this.#peek(length);
    this.#parts = whole.length > length ? [whole.subarray(length)] : [];
    this.#length -= length;
    return whole.subarray(0, length);
  }

  /** The first part, made long enough. Parts are joined only once for each frame that spans several. */
  #peek(length: number): Buffer {
    const [first = Buffer.alloc(0)] = this.#parts;
    if (first.length >= length) return first;
    const whole = Buffer.concat(this.#parts);
    this.#parts = [whole];
    return whole;
  }
}
