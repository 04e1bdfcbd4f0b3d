import type { Readable, Writable } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import { CallTimeout } from "../../foundation/headers.ts";
import { pathOf } from "../../transport/http/paths.ts";
import { SharedOctets } from "../../transport/http/shared-octets.ts";
import { RequestBody } from "../../transport/rpc/request-body.ts";
import type { Peer, RpcRequest } from "../../transport/rpc/rpc.ts";
import type { Permit } from "../limits/exchanges.ts";
import type { Routes, StreamedResponse } from "./routes.ts";

/** The acts and rules that servers of both versions of HTTP share. */
export const HttpExchange = {
  /** The origin of every request URL. No route reads the host of a request. */
  anyOrigin: "https://rampart",

  /** Whether a request names a path, and a method that the constructor of `Request` takes. */
  isTarget(target: string, method: string): boolean {
    return target.startsWith("/") && !/^(?:CONNECT|TRACE|TRACK)$/i.test(method);
  },

  /** The path of a target, without its query. */
  targetPath: (target: string): string => target.split("?", 1)[0] ?? target,

  /** The error of a call whose caller has hung up. */
  callerGone(): ConnectError {
    return new ConnectError("the caller is gone", Code.Canceled);
  },

  /**
   * Reads and discards the rest of a request, up to the size of a message or the timeout. A server may answer and reset a
   * stream while its request is still being sent (RFC 9113 §8.1), but curl takes that for a failure. HTTP/1.1 has no
   * reset.
   */
  async skipRest(stream: Readable, timeoutMilliseconds: number): Promise<void> {
    if (stream.readableEnded || stream.destroyed) return;
    const skipped = Promise.withResolvers<void>();
    const timer = setTimeout(skipped.resolve, timeoutMilliseconds);
    let octets = 0;
    stream.on("data", (chunk: Buffer) => {
      octets += chunk.length;
      if (octets > RequestBody.maximumOctets) skipped.resolve();
    });
    stream.once("end", skipped.resolve);
    stream.once("close", skipped.resolve);
    stream.resume();
    await skipped.promise;
    clearTimeout(timer);
  },

  /** Whether the stream is closed, so that further writes are useless. */
  isOver: ({ destroyed, closed }: Writable): boolean => destroyed || closed,

  /** Writes a chunk, whose octets are counted until the caller has read it. */
  async writeChunk(
    stream: Writable,
    chunk: Uint8Array,
    { reserve: hold }: Pick<Permit, "reserve">,
  ): Promise<void> {
    hold(chunk.length);
    if (HttpExchange.isOver(stream)) return;
    await written(stream, chunk);
    hold(-chunk.length);
  },

  /**
   * Sends the body of a response as fast as its client reads it. A slow client keeps two chunks of a large body in
   * memory, and one chunk of a body that all clients share, because encryption copies it. The last chunk is sent with
   * END_STREAM.
   */
  async sendBody(
    stream: Writable,
    response: Response,
    permit: Pick<Permit, "reserve">,
    ended: () => void = () => {},
  ): Promise<void> {
    const shared = SharedOctets.of(response);
    let last: Uint8Array | undefined;
    for await (const chunk of shared ? SharedOctets.parts(shared) : (response.body ?? [])) {
      if (last) await HttpExchange.writeChunk(stream, last, permit);
      if (HttpExchange.isOver(stream)) return;
      last = chunk;
    }
    permit.reserve(last?.length ?? 0);
    if (!HttpExchange.isOver(stream)) stream.end(last, ended);
  },

  /** Logs an internal error. Do not call it for errors that a peer causes. */
  logFault({ log }: Routes, error: unknown): void {
    log.operation({ event: "http-fault", level: "error", detail: messageOf(error) });
  },

  /**
   * Answers a request once its address has a turn: by the RPC of its path, or else by the fetch handler.
   *
   * @returns `undefined` if the caller has gone, or was refused.
   */
  async answer(
    { rpcs, fetch }: Routes,
    { path, incoming, headers, call, peer, permit }: Arrival,
  ): Promise<StreamedResponse | Response | undefined> {
    const rpc = rpcs.get(path);
    if (rpc) {
      const body = await bodyOf(incoming, headers, permit.reserve);
      return permit.inTurn(() => rpc({ ...call(), body }));
    }
    // Discards the body, which only RPCs read: unread chunks would take more memory than their content.
    incoming.resume();
    return permit.inTurn(async (yieldTurn) => {
      const { method, url, headers: fields, signal } = call();
      const request = new Request(url, { method, headers: fields(), signal });
      // `Request` resolves dot segments, but only one spelling of a path is accepted.
      if (pathOf(request) !== path) return new Response("not found\n", { status: 404 });
      return fetch(request, { ...peer, yieldTurn });
    });
  },
};

/**
 * Writes a chunk. Resolves once the socket has it or the stream is closed, also by a reset. It does not rely on
 * `drain`, because a stream buffers 64 KiB that would not be counted.
 */
function written(stream: Writable, chunk: Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      stream.off("close", end);
      resolve();
    };
    stream.once("close", end);
    stream.write(chunk, end);
  });
}

/** A request whose head has arrived, in either version of HTTP. */
interface Arrival {
  readonly path: string;
  readonly incoming: Readable;
  readonly headers: TimeoutHeaders;
  /** Creates the request without its body, once its turn has come. */
  readonly call: () => Omit<RpcRequest, "body">;
  readonly peer: Peer;
  readonly permit: Permit;
}

/**
 * The most chunks of a body before they are joined: each takes some 200 octets, and a caller may send single octets.
 */
const mostChunks = 64;

/** Reads a body that has arrived. */
type ReadBody = RpcRequest["body"];

/** The headers that say how long a caller waits. */
interface TimeoutHeaders {
  readonly "content-type"?: string | undefined;
  readonly "grpc-timeout"?: string | string[] | undefined;
  readonly "connect-timeout-ms"?: string | string[] | undefined;
}

/**
 * Waits for the body of a request: until it is whole, too large, or cut off, or until its caller's deadline has passed.
 * Meanwhile the request takes no turn, only memory.
 *
 * @param hold Counts octets as they arrive.
 * @returns A reader that throws ConnectError ResourceExhausted, DeadlineExceeded or Canceled.
 */
export function bodyOf(
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
    // Reads by events, because iterating a stream costs as much as the rest of an exchange over HTTP/2.
    const take = (chunk: Buffer): void => {
      octets += chunk.length;
      chunks.push(chunk);
      if (chunks.length === mostChunks) chunks.splice(0, mostChunks, Buffer.concat(chunks));
      hold(chunk.length);
      if (octets > RequestBody.maximumOctets) refuse(RequestBody.tooLarge);
    };
    const cut = (): void => refuse(HttpExchange.callerGone);
    const end = (): void => settle(async () => wholeOf(chunks));
    const timeoutMs = timeoutOf(headers);
    const timer = timeoutMs && setTimeout(() => refuse(RequestBody.tooSlow), timeoutMs);
    if (stream.readableEnded) return end();
    if (stream.destroyed) return cut();
    stream.on("data", take).once("end", end).once("error", cut).once("close", cut);
  });
}

function timeoutOf(headers: TimeoutHeaders): number | undefined {
  return /^application\/grpc/i.test(headers["content-type"] ?? "")
    ? CallTimeout.parseGrpc(String(headers["grpc-timeout"]))
    : CallTimeout.parseConnect(String(headers["connect-timeout-ms"]));
}

function wholeOf(chunks: readonly Buffer[]): Uint8Array {
  const [first, second] = chunks;
  return first && !second ? first : Buffer.concat(chunks);
}
