import { Code, ConnectError } from "@connectrpc/connect";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { RequestBody } from "./request-body.ts";

/** A frame begins with an octet of flags and four octets of length (gRPC over HTTP/2, Requests). */
export const frameHeadOctets = 5;

/** The message is compressed. */
export const compressedFlag = 0x01;

/** The frame has trailers instead of a message (gRPC-Web, Protocol differences). */
export const trailersFlag = 0x80;

/** Whether a body is one frame without flags. */
export function isPlainFrame(body: Uint8Array): boolean {
  if (body.length < frameHeadOctets) return false;
  const view = new DataView(body.buffer, body.byteOffset, frameHeadOctets);
  return view.getUint8(0) === 0 && view.getUint32(1) === body.length - frameHeadOctets;
}

/** One message of a body. */
interface Frame {
  readonly flags: number;
  readonly message: Uint8Array;
}

/**
 * The frames that a body consists of.
 *
 * @throws ConnectError ResourceExhausted for a message beyond the limit, InvalidArgument for a part of a frame.
 */
export function parseFrames(body: Uint8Array): Frame[] {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const frames: Frame[] = [];
  for (let at = 0; at < body.length; ) {
    const start = at + frameHeadOctets;
    const length = start <= body.length ? view.getUint32(at + 1) : 0;
    if (length > RequestBody.maximumOctets) throw RequestBody.tooLarge();
    const end = start + length;
    if (end > body.length) throw halfAFrame();
    frames.push({ flags: view.getUint8(at), message: body.subarray(start, end) });
    at = end;
  }
  return frames;
}

/** The first message of a body if it is complete, whatever comes after it; else `undefined`. */
export function firstMessageIn(body: Uint8Array): Uint8Array | undefined {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  for (let at = 0; at + frameHeadOctets <= body.length; ) {
    const start = at + frameHeadOctets;
    const end = start + view.getUint32(at + 1);
    const isMessage = (view.getUint8(at) & trailersFlag) === 0;
    if (isMessage) return end <= body.length ? body.subarray(start, end) : undefined;
    at = end;
  }
  return undefined;
}

/** A message in a frame of its own, not compressed. */
export function toFrame(message: Uint8Array): Bytes {
  return toFrames([0, message]);
}

/** A body of frames, each with its flags. */
export function toFrames(
  ...frames: readonly (readonly [flags: number, message: Uint8Array])[]
): Bytes {
  const octets = frames.reduce((sum, [, { length }]) => sum + frameHeadOctets + length, 0);
  const body = new Uint8Array(octets);
  const view = new DataView(body.buffer);
  let at = 0;
  for (const [flags, message] of frames) {
    view.setUint8(at, flags);
    view.setUint32(at + 1, message.length);
    body.set(message, at + frameHeadOctets);
    at += frameHeadOctets + message.length;
  }
  return body;
}

/**
 * Refuses two kinds of frames that Connect would accept: one with a flag that the protocol reserves, and the head of a
 * frame at the end of the body with no octet of its message. A message that is cut short passes; Connect refuses it.
 *
 * @param known The flags that the protocol defines.
 * @throws ConnectError Internal for a flag, InvalidArgument for a head alone.
 */
export function requireStrictFrames(body: Uint8Array, known: number): void {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  for (let at = 0; at + frameHeadOctets <= body.length; ) {
    if (view.getUint8(at) & ~known) {
      throw new ConnectError("a frame has reserved flags", Code.Internal);
    }
    const length = view.getUint32(at + 1);
    at += frameHeadOctets;
    if (at === body.length && length > 0 && length <= RequestBody.maximumOctets) throw halfAFrame();
    at += length;
  }
}

const halfAFrame = (): ConnectError => new ConnectError("half a frame", Code.InvalidArgument);
