import { type LookupAddress, lookup } from "node:dns";
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { Readable } from "node:stream";
import type { SecureContextOptions } from "node:tls";
import { urlToHttpOptions } from "node:url";
import { isPublicAddress } from "../../foundation/addresses.ts";
import { type Fetch, FetchError, type FetchTrusting, type Reach } from "../../foundation/fetch.ts";
import { systemCode } from "../files/small-file.ts";
import {
  type AnswerReader,
  type ExchangeOptions,
  exchange,
  headersOf,
  notAnswered,
  readHead,
  readWhole,
  type WholeAnswer,
} from "./http-exchange.ts";

/** Options of TLS: roots instead of the system's, a client certificate, another server name. */
export type ClientTls = SecureContextOptions & { readonly servername?: string };

/** The URL of requests. A caller parses it once for all of them. */
export type Target = Readonly<ReturnType<typeof urlToHttpOptions>>;

export interface OutgoingRequest extends ExchangeOptions {
  readonly target: Target;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  /** PEM of the roots for this connection, where those of the client may change. */
  readonly ca?: string | undefined;
  /** Called when a new connection for it stands, and its server is verified. */
  readonly connected?: (() => void) | undefined;
}

const pooling = {
  keepAlive: true,
  /** The interval at which TCP probes an idle connection. */
  keepAliveMsecs: 15_000,
  /** As many calls as a gateway has under way: at fewer it would open and close connections all the time. */
  maxFreeSockets: 128,
  timeout: 60_000,
};

/** @throws TypeError for an invalid URL. */
export function parseTarget(url: string): Target {
  return urlToHttpOptions(new URL(url));
}

/**
 * A client for servers that may be slow, broken or hostile. It follows no redirect, decompresses no
 * answer, and reuses connections. When a reused connection turns out to be closed, it repeats the
 * request, so every request must be safe to repeat.
 *
 * @param maximumConnections The most to one server. Further requests wait, within their timeout.
 * @param reach `public` refuses private addresses, whether a URL or DNS names them.
 */
export class HttpClient {
  readonly #plain: HttpAgent;
  readonly #secure: HttpsAgent;
  readonly #isPublic: boolean;

  constructor(tls: ClientTls, maximumConnections: number, reach: Reach = "anywhere") {
    this.#isPublic = reach === "public";
    const lookup = this.#isPublic ? { lookup: createPublicLookup() } : {};
    const settings = { ...pooling, maxSockets: maximumConnections, ...lookup };
    this.#plain = new HttpAgent(settings);
    this.#secure = new HttpsAgent({ ...settings, ...tls });
  }

  /** The whole answer. @throws FetchError, or the reason of the signal. */
  send(outgoing: OutgoingRequest, maximumOctets: number): Promise<WholeAnswer> {
    return this.#perform(outgoing, readWhole(maximumOctets));
  }

  /**
   * The head of an answer. The caller must read or destroy the body, which only the signal ends.
   *
   * @throws FetchError, or the reason of the signal.
   */
  open(outgoing: OutgoingRequest): Promise<IncomingMessage> {
    return this.#perform(outgoing, readHead);
  }

  /** Keeps the connections that there are, and has no request open another. */
  settle(): void {
    this.#plain.createConnection = this.#secure.createConnection = () => {
      throw new FetchError("has closed the connection");
    };
  }

  readonly close = (): void => {
    this.#plain.destroy();
    this.#secure.destroy();
  };

  async #perform<Answer>(outgoing: OutgoingRequest, read: AnswerReader<Answer>): Promise<Answer> {
    if (this.#isPublic) requirePublicLiteral(outgoing.target);
    const first = this.#begin(outgoing);
    try {
      return await exchange(first, outgoing, read);
    } catch (error) {
      if (!wasClosed(first, error)) throw error;
      return exchange(this.#begin(outgoing), outgoing, read);
    }
  }

  #begin({ target, method, headers, ca, connected }: OutgoingRequest): ClientRequest {
    const { protocol, hostname, port, path } = target;
    const isPlain = protocol === "http:";
    const common = { hostname, port, path, method, headers };
    const request = isPlain
      ? httpRequest({ agent: this.#plain, ...common })
      : httpsRequest({ agent: this.#secure, ...common, ...(ca && { ca }) });
    if (connected)
      request.once("socket", (socket) =>
        socket.once(isPlain ? "connect" : "secureConnect", connected),
      );
    return request;
  }
}

/** No lookup sees an address that stands in the URL itself. @throws FetchError */
function requirePublicLiteral({ hostname }: Target): void {
  if (isIP(hostname ?? "") === 0 || isPublicAddress(hostname ?? "")) return;
  throw notAnswered(createPrivateAddressError());
}

/** A server may close an idle connection at the moment at which the client reuses it. */
function wasClosed({ reusedSocket }: ClientRequest, error: unknown): boolean {
  const code = error instanceof Error ? systemCode(error.cause) : undefined;
  return reusedSocket && (code === "ECONNRESET" || code === "EPIPE");
}

type Resolve = (
  hostname: string,
  options: { readonly all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * A lookup that knows no private addresses. The socket connects to nothing but what it returns, so a
 * name that changes between two lookups gains nothing.
 */
export function createPublicLookup(resolve: Resolve = lookup): LookupFunction {
  return (hostname, options, callback) =>
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const usable = addresses?.filter(({ address }) => isPublicAddress(address)) ?? [];
      const [first] = usable;
      if (error || !first) callback(error ?? createPrivateAddressError(), []);
      else if (options.all) callback(null, usable);
      else callback(null, first.address, first.family);
    });
}

/** The code stands in the log: a public issuer's key URL leads to a private address. */
const createPrivateAddressError = (): NodeJS.ErrnoException =>
  Object.assign(new Error("the address is private"), { code: "PRIVATE_ADDRESS" });

const maximumConnections = 32;

/** Some servers refuse a request without a user agent, and this client decompresses no answer. */
const usualHeaders = { "accept-encoding": "identity", "user-agent": "rampart" };

/**
 * Node's own `fetch` cannot trust a CA for some requests alone, and a hostile answer can end the process.
 * After it rejects an answer with too many encodings, the body fails with an error that no code handles.
 */
export const fetchTrusting: FetchTrusting = (roots, reach) =>
  fetchWith(roots === undefined ? {} : { ca: roots }, reach);

/** `fetch` with these roots, and the certificate that it shows. */
export function fetchWith(tls: ClientTls, reach?: Reach): Fetch {
  const client = new HttpClient(tls, maximumConnections, reach);
  return async (url, { method = "GET", headers, body, signal }) => {
    const response = await client.open({
      target: parseTarget(url),
      method,
      headers: { ...usualHeaders, ...Object.fromEntries(new Headers(headers)) },
      body: typeof body === "string" || body instanceof Uint8Array ? body : undefined,
      signal: signal ?? undefined,
    });
    return toResponse(response);
  };
}

const bodiless: readonly number[] = [204, 205, 304];

/** @throws FetchError for a status that `Response` cannot carry. */
function toResponse(answer: IncomingMessage): Response {
  const { statusCode: status = 0 } = answer;
  const init = { status, headers: headersOf(answer.rawHeaders) };
  if (status < 200 || status > 599) {
    answer.destroy();
    throw new FetchError(`answered with status ${status}`);
  }
  if (!bodiless.includes(status)) {
    return new Response(Readable.toWeb(answer) as ReadableStream<Uint8Array>, init);
  }
  answer.resume();
  return new Response(null, init);
}
