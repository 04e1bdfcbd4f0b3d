import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { SecureContextOptions } from "node:tls";
import { urlToHttpOptions } from "node:url";
import {
  type AnswerReader,
  type ExchangeOptions,
  exchange,
  readHead,
  readWhole,
  type WholeAnswer,
} from "./http-exchange.ts";
import { systemCode } from "./system-code.ts";

/** What TLS rests on: other roots than the system's, a client certificate, another name. */
export type ClientTls = SecureContextOptions & { readonly servername?: string };

/** Where a request goes: parsed once, used again and again. */
export type Target = Readonly<ReturnType<typeof urlToHttpOptions>>;

/** A request, its body whole. */
export interface OutgoingRequest extends ExchangeOptions {
  readonly target: Target;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * A client for servers that may be slow, broken or hostile. It follows no redirect, decompresses
 * nothing, and keeps connections for later requests. It sends a request again when a kept connection
 * turns out to be closed, so every request must bear to be repeated.
 */
export interface HttpClient {
  /** The whole answer. @throws FetchError, or the reason of the signal. */
  readonly send: (request: OutgoingRequest, maximumOctets: number) => Promise<WholeAnswer>;
  /**
   * The head of an answer. The caller must read or destroy the body, which only the signal ends.
   *
   * @throws FetchError, or the reason of the signal.
   */
  readonly open: (request: OutgoingRequest) => Promise<IncomingMessage>;
  readonly close: () => void;
}

const pooling = {
  keepAlive: true,
  /** TCP probes a silent connection so often. */
  keepAliveMsecs: 15_000,
  maxFreeSockets: 32,
  timeout: 60_000,
};

/** @throws TypeError for what is no URL. */
export function parseTarget(url: string): Target {
  return urlToHttpOptions(new URL(url));
}

/** @param maximumConnections At once to one server; further requests wait within their time. */
export function createHttpClient(tls: ClientTls, maximumConnections: number): HttpClient {
  const settings = { ...pooling, maxSockets: maximumConnections };
  const plain = new HttpAgent(settings);
  const secure = new HttpsAgent({ ...settings, minVersion: "TLSv1.2", ...tls });
  const begin = ({ target, method, headers }: OutgoingRequest): ClientRequest => {
    const { protocol, hostname, port, path } = target;
    return protocol === "http:"
      ? httpRequest({ agent: plain, hostname, port, path, method, headers })
      : httpsRequest({ agent: secure, hostname, port, path, method, headers });
  };

  async function perform<Answer>(
    outgoing: OutgoingRequest,
    read: AnswerReader<Answer>,
  ): Promise<Answer> {
    const first = begin(outgoing);
    try {
      return await exchange(first, outgoing, read);
    } catch (error) {
      if (!wasClosed(first, error)) throw error;
      return exchange(begin(outgoing), outgoing, read);
    }
  }

  return {
    send: (outgoing, maximumOctets) => perform(outgoing, readWhole(maximumOctets)),
    open: (outgoing) => perform(outgoing, readHead),
    close: () => {
      plain.destroy();
      secure.destroy();
    },
  };
}

/** A server may close a kept connection at the very moment at which it is used again. */
function wasClosed({ reusedSocket }: ClientRequest, error: unknown): boolean {
  const code = error instanceof Error ? systemCode(error.cause) : undefined;
  return reusedSocket && (code === "ECONNRESET" || code === "EPIPE");
}
