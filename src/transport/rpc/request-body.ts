import { Code, ConnectError } from "@connectrpc/connect";
import { concatBytes } from "../../pki/encoding/bytes.ts";
import { withTimeout } from "./timeout.ts";

/** A request is a CSR of at most 16 kB, a number, and a little metadata. */
export const maximumBodyOctets = 65_536;

/** How long a caller may take to send it, in milliseconds. */
const bodyTimeout = 10_000;

/**
 * The body of a request, read when the RPC layer asks for it and not before: what authentication
 * refuses is never read.
 *
 * @param signal Aborted when nobody waits for the answer any more.
 * @throws ConnectError ResourceExhausted or DeadlineExceeded, from the iteration.
 */
export async function* requestBody(
  request: Request,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const length = Number(request.headers.get("content-length") ?? Number.NaN);
  if (length > maximumBodyOctets) throw messageTooLarge();
  const body = Number.isNaN(length)
    ? readStream(request.body)
    : request.arrayBuffer().then(toBytes);
  yield await inTime(body, signal);
}

/**
 * The same for a body that comes in chunks from elsewhere than fetch.
 *
 * @throws ConnectError ResourceExhausted or DeadlineExceeded, from the iteration.
 */
export async function* chunkedBody(
  chunks: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  yield await inTime(readStream(chunks), signal);
}

function inTime(body: Promise<Uint8Array>, signal: AbortSignal): Promise<Uint8Array> {
  return withTimeout(body, { signal, milliseconds: bodyTimeout, timeoutError: tooSlow });
}

const toBytes = (buffer: ArrayBuffer): Uint8Array => new Uint8Array(buffer);

/** Without a length only the stream itself can say when it is too much. */
async function readStream(stream: AsyncIterable<Uint8Array> | null): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let octets = 0;
  for await (const chunk of stream ?? []) {
    octets += chunk.length;
    if (octets > maximumBodyOctets) throw messageTooLarge();
    chunks.push(chunk);
  }
  return concatBytes(...chunks);
}

/** Refuses a message beyond {@link maximumBodyOctets}. */
export function messageTooLarge(): ConnectError {
  return new ConnectError(
    `message must not exceed ${maximumBodyOctets} bytes`,
    Code.ResourceExhausted,
  );
}

function tooSlow(): ConnectError {
  return new ConnectError("the message did not arrive in time", Code.DeadlineExceeded);
}
