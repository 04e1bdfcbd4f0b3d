import { Code, ConnectError } from "@connectrpc/connect";
import { withPatience } from "./patience.ts";

/** A request is a CSR of at most 16 kB, a number, and a little metadata. */
export const maximumBodyOctets = 65_536;

/** How long a caller may take to send it, in milliseconds. */
const bodyTimeout = 10_000;

/**
 * The body of a request, read when the RPC layer asks for it and not before: what authentication
 * refuses is never read.
 *
 * @param signalOf The signal of the call, which begins before its body is read.
 * @throws ConnectError ResourceExhausted or DeadlineExceeded, from the iteration.
 */
export async function* requestBody(
  request: Request,
  signalOf: () => AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const length = Number(request.headers.get("content-length") ?? Number.NaN);
  if (length > maximumBodyOctets) throw tooLarge();
  const body = Number.isNaN(length) ? readStream(request) : request.arrayBuffer().then(toBytes);
  yield await withPatience(body, {
    signal: signalOf(),
    milliseconds: bodyTimeout,
    giveUp: tooSlow,
  });
}

const toBytes = (buffer: ArrayBuffer): Uint8Array => new Uint8Array(buffer);

/** Without a length only the stream itself can say when it is too much. */
async function readStream(request: Request): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let octets = 0;
  for await (const chunk of request.body ?? []) {
    octets += chunk.length;
    if (octets > maximumBodyOctets) throw tooLarge();
    chunks.push(chunk);
  }
  return new Blob(chunks as BlobPart[]).arrayBuffer().then(toBytes);
}

function tooLarge(): ConnectError {
  return new ConnectError(
    `message must not exceed ${maximumBodyOctets} bytes`,
    Code.ResourceExhausted,
  );
}

function tooSlow(): ConnectError {
  return new ConnectError("the message did not arrive in time", Code.DeadlineExceeded);
}
