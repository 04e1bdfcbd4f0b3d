import type { Readable, Writable } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import { maximumBodyOctets } from "../../transport/rpc/request-body.ts";
import type { Routes } from "./routes.ts";

/** The origin of every request URL. No route reads the host of a request. */
export const anyOrigin = "https://rampart";

/** Whether `Request` refuses the method: its constructor throws. */
export function isUnknownToFetch(method: string): boolean {
  return /^(?:CONNECT|TRACE|TRACK)$/i.test(method);
}

/** The reason for which a call ends when its caller hangs up. */
export function callerGone(): ConnectError {
  return new ConnectError("the caller is gone", Code.Canceled);
}

/**
 * Reads the rest of a request and discards it, as long as it is no larger than a message may be. A server may answer and reset a stream while
 * its request is still being sent (RFC 9113 §8.1), but curl takes that for a failure. HTTP/1.1 has no
 * reset.
 */
export async function skipRest(stream: Readable, timeoutMilliseconds: number): Promise<void> {
  if (stream.readableEnded || stream.destroyed) return;
  const skipped = Promise.withResolvers<void>();
  const timer = setTimeout(skipped.resolve, timeoutMilliseconds);
  let octets = 0;
  stream.on("data", (chunk: Buffer) => {
    octets += chunk.length;
    if (octets > maximumBodyOctets) skipped.resolve();
  });
  stream.once("end", skipped.resolve);
  stream.once("close", skipped.resolve);
  stream.resume();
  await skipped.promise;
  clearTimeout(timer);
}

/** Resolves when the stream takes more, or is closed, whatever closes it: a reset is its peer's right. */
export function drained(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      stream.off("drain", end).off("close", end);
      resolve();
    };
    stream.once("drain", end).once("close", end);
  });
}

/**
 * Sends the body of an answer as fast as its caller reads it: a slow caller holds one chunk of a large body.
 * The last chunk leaves with the end.
 */
export async function sendBody(
  stream: Writable,
  { body }: Response,
  ended: () => void = () => {},
): Promise<void> {
  let held: Uint8Array | undefined;
  for await (const chunk of body ?? []) {
    if (held && !stream.write(held)) await drained(stream);
    if (stream.destroyed) return;
    held = chunk;
  }
  stream.end(held, ended);
}

/** Logs an internal error. The errors of a peer are not logged. */
export function logHttpFault({ log }: Routes, error: unknown): void {
  log.operation({ event: "http-fault", level: "error", detail: messageOf(error) });
}
