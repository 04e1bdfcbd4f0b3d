import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import { maximumBodyOctets } from "../../transport/rpc/request-body.ts";
import type { Routes } from "./routes.ts";

/** A host for requests whose own word for it nobody reads. */
export const anyOrigin = "https://rampart";

/** A method for which there is no request of fetch: it throws. */
export function isUnknownToFetch(method: string): boolean {
  return /^(?:CONNECT|TRACE|TRACK)$/i.test(method);
}

/** Why a call has ended that nobody waits for. */
export function callerGone(): ConnectError {
  return new ConnectError("the caller is gone", Code.Canceled);
}

/** How much more of a request is read once its answer is known, and for how long. */
const rest = { octets: maximumBodyOctets, milliseconds: 1000 };

/**
 * Reads what is left of a request and throws it away, within limits: a stream may be answered and reset
 * while its request is still being sent (RFC 9113 §8.1), but curl, for one, takes that for a failure, and
 * over HTTP/1.1 there is no such thing.
 */
export async function skipRest(stream: Readable): Promise<void> {
  if (stream.readableEnded || stream.destroyed) return;
  const skipped = Promise.withResolvers<void>();
  const timer = setTimeout(skipped.resolve, rest.milliseconds);
  let octets = 0;
  stream.on("data", (chunk: Buffer) => {
    octets += chunk.length;
    if (octets > rest.octets) skipped.resolve();
  });
  stream.once("end", skipped.resolve);
  stream.once("close", skipped.resolve);
  stream.resume();
  await skipped.promise;
  clearTimeout(timer);
}

/** Resolves once there is room for more, or nobody who would read it. */
export async function drained(stream: Writable): Promise<void> {
  await Promise.race([once(stream, "drain"), once(stream, "close")]);
}

/** A fault of ours: what a peer does is none. */
export function logHttpFault({ log }: Routes, error: unknown): void {
  log.operation({ event: "http-fault", level: "error", detail: messageOf(error) });
}
