import type { Bytes } from "../../pki/encoding/bytes.ts";

/** The octets of an answer that every caller gets. */
const sharedOctets = new WeakMap<Response, Bytes>();

/** Octets of an answer that many callers get. */
export const SharedOctets = {
  /** The octets that an answer shares with others instead of having a copy; `undefined` for any other answer. */
  of: (response: Response): Bytes | undefined => sharedOctets.get(response),

  /** An answer that thousands of callers may hold at once: all of them share its octets. */
  share(octets: Bytes, init: ResponseInit): Response {
    const parts = SharedOctets.parts(octets);
    const stream = (): ReadableStream =>
      new ReadableStream(
        {
          pull: (to) => {
            const { value, done } = parts.next();
            if (done) to.close();
            else to.enqueue(value);
          },
        },
        { highWaterMark: 0 },
      );
    const response = new Response(octets.length > copiedOctets ? stream() : octets, init);
    sharedOctets.set(response, octets);
    return response;
  },

  /** Views of the octets, one after the other. */
  *parts(octets: Bytes): Generator<Bytes> {
    for (let [at, length] = [0, firstPartOctets]; at < octets.length; length = partOctets) {
      yield octets.subarray(at, at + length);
      at += length;
    }
  },
};

/** A `Response` copies its octets. A body longer than this becomes a stream, whose chunks share one buffer. */
const copiedOctets = 4 * 1024;
/** The first part is small: thousands of long polls are answered at once. */
const firstPartOctets = 4 * 1024;
const partOctets = 16 * 1024;
