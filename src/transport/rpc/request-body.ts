import { Code, ConnectError } from "@connectrpc/connect";
import { concatBytes } from "../../foundation/octets.ts";
import { Deadline } from "./deadline.ts";

/** The limits of a request's body, and the errors for exceeding them. */
export const RequestBody = {
  /** The longest body of a request: a CSR of at most 16 KiB, a number, and a little metadata. */
  maximumOctets: 65_536,

  /**
   * Waits for a body for at most ten seconds. It does not check the size.
   *
   * @param signal Aborted when the caller has hung up or its deadline has passed.
   * @throws ConnectError DeadlineExceeded.
   */
  inTime(body: Promise<Uint8Array>, signal: AbortSignal): Promise<Uint8Array> {
    const arrival = (deadline: Deadline) => deadline.wait(body, RequestBody.tooSlow);
    return Deadline.within(signal, arrival, bodyMilliseconds);
  },

  /** Whether a request of this content type is native gRPC, which needs trailers. */
  isGrpc: (contentType: string | null | undefined): boolean =>
    /^application\/grpc(?:$|[+;])/i.test(contentType ?? ""),

  /** The refusal of a message beyond {@link RequestBody.maximumOctets}. */
  tooLarge(): ConnectError {
    const sentence = `message must not exceed ${RequestBody.maximumOctets} bytes`;
    return new ConnectError(sentence, Code.ResourceExhausted);
  },

  /** The refusal of a message that is not there when its caller's time, or the service's own, is up. */
  tooSlow(): ConnectError {
    return new ConnectError("the message did not arrive in time", Code.DeadlineExceeded);
  },
};

/** The time that a caller has to send a body. */
const bodyMilliseconds = 10_000;

/**
 * The body of a fetch request; the time is not bounded. The RPC layer asks for it after authentication, so the body of
 * a caller without a credential is never read.
 *
 * @throws ConnectError ResourceExhausted.
 */
export async function requestBody(request: Request): Promise<Uint8Array> {
  const length = Number(request.headers.get("content-length") ?? Number.NaN);
  if (length > RequestBody.maximumOctets) throw RequestBody.tooLarge();
  return Number.isNaN(length)
    ? readStream(request.body)
    : new Uint8Array(await request.arrayBuffer());
}

/** Reads a stream, counting its octets: one without a length may be endless. */
async function readStream(stream: AsyncIterable<Uint8Array> | null): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let octets = 0;
  for await (const chunk of stream ?? []) {
    octets += chunk.length;
    if (octets > RequestBody.maximumOctets) throw RequestBody.tooLarge();
    chunks.push(chunk);
  }
  return concatBytes(...chunks);
}
