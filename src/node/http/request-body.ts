import type { Readable } from "node:stream";
import { maximumBodyOctets, messageTooLarge } from "../../transport/rpc/request-body.ts";
import { callerGone } from "./http-exchange.ts";

/**
 * The body of a request of `node:http` or `node:http2`, read by events: an iterator of a stream costs as
 * much as the rest of an exchange over HTTP/2.
 *
 * @throws ConnectError ResourceExhausted or Canceled.
 */
export function streamBody(stream: Readable): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let octets = 0;
    const take = (chunk: Buffer): void => {
      octets += chunk.length;
      chunks.push(chunk);
      if (octets <= maximumBodyOctets) return;
      stream.off("data", take).pause();
      reject(messageTooLarge());
    };
    const [end, close] = [() => resolve(wholeOf(chunks)), () => reject(callerGone())];
    if (stream.readableEnded) return end();
    if (stream.destroyed) return close();
    stream.on("data", take).once("end", end).once("error", reject).once("close", close);
  });
}

function wholeOf(chunks: readonly Buffer[]): Uint8Array {
  const [first, second] = chunks;
  return first && !second ? first : Buffer.concat(chunks);
}
