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

/** Finds the frames of a body: their flags, and where their messages are. The last may end beyond the body. */
export function* framesIn(
  body: Uint8Array,
): Generator<{ readonly flags: number; readonly start: number; readonly end: number }> {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  for (let at = 0; at + frameHeadOctets <= body.length; ) {
    const start = at + frameHeadOctets;
    const end = start + view.getUint32(at + 1);
    yield { flags: view.getUint8(at), start, end };
    at = end;
  }
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
  const frames: Frame[] = [];
  let read = 0;
  for (const { flags, start, end } of framesIn(body)) {
    if (end - start > RequestBody.maximumOctets) throw RequestBody.tooLarge();
    if (end > body.length) throw halfAFrame();
    frames.push({ flags, message: body.subarray(start, end) });
    read = end;
  }
  if (read < body.length) throw halfAFrame();
  return frames;
}

/** The first message of a body if it is complete, whatever comes after it; else `undefined`. */
export function firstMessageIn(body: Uint8Array): Uint8Array | undefined {
  for (const { flags, start, end } of framesIn(body)) {
    if (flags & trailersFlag) continue;
    return end <= body.length ? body.subarray(start, end) : undefined;
  }
  return undefined;
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
  for (const { flags, start, end } of framesIn(body)) {
    if (flags & ~known) throw new ConnectError("a frame has reserved flags", Code.Internal);
    const isHeadAlone = start === body.length && end > start;
    if (isHeadAlone && end - start <= RequestBody.maximumOctets) throw halfAFrame();
  }
}

const halfAFrame = (): ConnectError => new ConnectError("half a frame", Code.InvalidArgument);
