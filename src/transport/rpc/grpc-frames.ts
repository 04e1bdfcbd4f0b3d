import { Code, ConnectError } from "@connectrpc/connect";
import type { Bytes } from "../../pki/encoding/bytes.ts";

/** A frame begins with an octet of flags and four octets of length (gRPC over HTTP/2, Requests). */
export const frameHeadOctets = 5;

/** The message is compressed. */
export const compressedFlag = 0x01;

/** The frame holds trailers in place of a message (gRPC-Web, Protocol differences). */
export const trailersFlag = 0x80;

/** A message in a frame of its own, not compressed. */
export function toFrame(message: Uint8Array): Bytes {
  const frame = new Uint8Array(frameHeadOctets + message.length);
  new DataView(frame.buffer).setUint32(1, message.length);
  frame.set(message, frameHeadOctets);
  return frame;
}

/**
 * Refuses a body in which a frame has a flag that its protocol reserves: what such a frame means is
 * unknown.
 *
 * @param known The flags that the protocol defines.
 * @throws ConnectError Internal.
 */
export function requireKnownFlags(body: Uint8Array, known: number): void {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  for (let at = 0; at + frameHeadOctets <= body.length; ) {
    if (view.getUint8(at) & ~known) {
      throw new ConnectError("a frame has reserved flags", Code.Internal);
    }
    at += frameHeadOctets + view.getUint32(at + 1);
  }
}
