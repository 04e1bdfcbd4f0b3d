import type { Readable } from "node:stream";
import { parseConnectTimeout, parseGrpcTimeout } from "../../foundation/http/timeout-header.ts";
import { maximumBodyOctets, messageTooLarge, tooSlow } from "../../transport/rpc/request-body.ts";
import type { RpcRequest } from "../../transport/rpc/rpc.ts";
import { callerGone } from "./http-exchange.ts";

/** Reads a body that has arrived. */
type ReadBody = RpcRequest["body"];

/** The headers that say how long a caller waits. */
interface TimeoutHeaders {
  readonly "content-type"?: string | undefined;
  readonly "grpc-timeout"?: string | string[] | undefined;
  readonly "connect-timeout-ms"?: string | string[] | undefined;
}

/**
 * Waits for the body of a request of `node:http` or `node:http2`: until it is whole, too large, or cut off, or until its
 * caller's deadline has passed. Nobody works on the request meanwhile, so this costs only the octets.
 *
 * @param hold Counts octets as they arrive.
 * @returns A reader that throws ConnectError ResourceExhausted, DeadlineExceeded or Canceled.
 */
export function arrivalOf(
  stream: Readable,
  headers: TimeoutHeaders,
  hold: (octets: number) => void,
): Promise<ReadBody> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let octets = 0;
    const settle = (read: ReadBody): void => {
      clearTimeout(timer);
      stream.off("data", take).off("end", end).off("error", cut).off("close", cut);
      resolve(read);
    };
    const refuse = (refusal: () => Error): void => {
      stream.pause();
      settle(async () => {
        throw refusal();
      });
    };
    // By events: an iterator of a stream costs as much as the rest of an exchange over HTTP/2.
    const take = (chunk: Buffer): void => {
      octets += chunk.length;
      chunks.push(chunk);
      hold(chunk.length);
      if (octets > maximumBodyOctets) refuse(messageTooLarge);
    };
    const cut = (): void => refuse(callerGone);
    const end = (): void => settle(async () => wholeOf(chunks));
    const timeoutMs = timeoutOf(headers);
    const timer = timeoutMs && setTimeout(() => refuse(tooSlow), timeoutMs);
    if (stream.readableEnded) return end();
    if (stream.destroyed) return cut();
    stream.on("data", take).once("end", end).once("error", cut).once("close", cut);
  });
}

function timeoutOf(headers: TimeoutHeaders): number | undefined {
  return /^application\/grpc/i.test(headers["content-type"] ?? "")
    ? parseGrpcTimeout(String(headers["grpc-timeout"]))
    : parseConnectTimeout(String(headers["connect-timeout-ms"]));
}

function wholeOf(chunks: readonly Buffer[]): Uint8Array {
  const [first, second] = chunks;
  return first && !second ? first : Buffer.concat(chunks);
}
