import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { urlToHttpOptions } from "node:url";
import { systemCode } from "./system-code.ts";

/** A request to the one server behind the connections, its body whole. */
export interface OutgoingRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Aborted when nobody waits any more; its reason is the outcome then. */
  readonly signal?: AbortSignal | undefined;
}

/** Any answer, whole; redirects are not followed. */
export interface WholeAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly octets: Uint8Array;
}

/** Connections to one server, which are used again and again. */
export interface ConnectionPool {
  /** Rejects when there is no answer, no whole one, one that is too large, or none in time. */
  readonly send: (request: OutgoingRequest) => Promise<WholeAnswer>;
  readonly close: () => void;
}

const settings = { keepAlive: true, maxSockets: 256, maxFreeSockets: 32, timeout: 60_000 };
const maximumMilliseconds = 30_000;
const maximumOctets = 256 * 1024;

/** @param roots PEM of the roots of the server's certificate, instead of the system's. */
export function createConnectionPool(url: string, roots: string | undefined): ConnectionPool {
  const target = new URL(url);
  const { hostname, port } = urlToHttpOptions(target);
  const isSecure = url.startsWith("https:");
  const tls = { ...(roots !== undefined && { ca: roots }), minVersion: "TLSv1.2" } as const;
  const agent = isSecure ? new HttpsAgent({ ...settings, ...tls }) : new HttpAgent(settings);
  const prefix = target.pathname.replace(/\/+$/, "");
  const open = ({ method, path, headers }: OutgoingRequest): ClientRequest => {
    const options = { agent, hostname, port, method, path: `${prefix}${path}`, headers };
    return isSecure ? httpsRequest(options) : httpRequest(options);
  };
  return {
    send: async (outgoing) => {
      const first = open(outgoing);
      try {
        return await exchange(first, outgoing);
      } catch (error) {
        if (!wasGone(first, error)) throw error;
        return exchange(open(outgoing), outgoing);
      }
    },
    close: () => agent.destroy(),
  };
}

/**
 * Whether the connection was gone before anything came back: the server may close one that was kept just
 * as it is used again. A request is worth a second try then, because at the worst the first has issued a
 * certificate for nobody.
 */
function wasGone({ reusedSocket }: ClientRequest, error: unknown): boolean {
  const code = systemCode(error);
  return reusedSocket && (code === "ECONNRESET" || code === "EPIPE");
}

function exchange(request: ClientRequest, { body, signal }: OutgoingRequest): Promise<WholeAnswer> {
  return new Promise((resolve, reject) => {
    let isOver = false;
    const settle = (): void => {
      isOver = true;
      clearTimeout(timer);
      signal?.removeEventListener("abort", abandon);
    };
    const fail = (error: unknown): void => {
      if (isOver) return;
      settle();
      reject(error);
      request.destroy();
    };
    const abandon = (): void => fail(signal?.reason);
    const timer = setTimeout(() => fail(new Error("no answer in time")), maximumMilliseconds);
    request.on("error", fail);
    request.on("response", (response) =>
      collect(response, fail, (octets) => {
        settle();
        resolve({ status: response.statusCode ?? 0, headers: response.headers, octets });
      }),
    );
    // A protocol that was switched, for one, ends without an error.
    request.on("close", () => isOver || fail(new Error("closed without an answer")));
    signal?.addEventListener("abort", abandon);
    if (signal?.aborted) abandon();
    else request.end(body);
  });
}

/** Its own sentence for an answer that breaks off: it is no reason to ask again. */
function collect(
  response: IncomingMessage,
  fail: (error: Error) => void,
  done: (octets: Uint8Array) => void,
): void {
  const chunks: Buffer[] = [];
  let octets = 0;
  response.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    octets += chunk.length;
    if (octets > maximumOctets) fail(new Error("an answer that is too large"));
  });
  response.on("error", () => fail(new Error("an answer that breaks off")));
  response.on("end", () =>
    done(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)),
  );
}
