import { type LookupAddress, lookup } from "node:dns";
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { Readable } from "node:stream";
import { urlToHttpOptions } from "node:url";
import { Host } from "../../foundation/addresses.ts";
import type { DocumentFetch } from "../../foundation/fetch.ts";
import { type Fetch, FetchError } from "../../foundation/fetch.ts";
import { PemFile } from "../files/pem-file.ts";
import { errorCode } from "../files/small-file.ts";
import {
  type AnswerReader,
  type ExchangeOptions,
  exchange,
  notAnswered,
  RawHeaders,
  readHead,
  readWhole,
  type WholeAnswer,
} from "./http-exchange.ts";
import { EnvironmentProxies, type ProxyFor, type ProxyServer } from "./proxies.ts";
import { type ClientTls, probeMilliseconds, TlsAgent } from "./tunnel.ts";

/** A parsed URL, which a caller parses once for all of its requests. */
export type Target = Readonly<ReturnType<typeof urlToHttpOptions>>;

/** A request that a program sends. */
export interface OutgoingRequest extends ExchangeOptions {
  readonly target: Target;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  /** PEM of the roots to trust for this request, instead of the client's. */
  readonly ca?: string | undefined;
  /** Called once the request has a new connection whose server is verified; not for a reused connection. */
  readonly connected?: (() => void) | undefined;
}

const pooling = {
  keepAlive: true,
  keepAliveMsecs: probeMilliseconds,
  /** As many as a gateway has calls under way: with fewer, it would keep opening and closing connections. */
  maxFreeSockets: 128,
  timeout: 60_000,
};

/**
 * Parses a URL into what Node's HTTP client takes.
 * @throws TypeError for an invalid URL.
 */
export function parseTarget(url: string): Target {
  return urlToHttpOptions(new URL(url));
}

/**
 * A client for servers that may be slow, broken or hostile. It follows no redirect, decompresses no answer, and reuses
 * connections. When a reused connection turns out to be closed, it repeats the request, so every request must be safe
 * to repeat.
 *
 * @param maximumConnections The most to one server. Further requests wait, within their timeout.
 * @param reach `public` refuses private addresses, whether a URL or DNS names them, and private names, even if a proxy
 *   resolves them.
 * @param proxyFor By default as the environment says.
 */
export class HttpClient {
  readonly #plain: HttpAgent;
  readonly #secure: TlsAgent;
  readonly #isPublic: boolean;
  readonly #proxyFor: ProxyFor;

  constructor(
    tls: ClientTls,
    maximumConnections: number,
    reach: keyof DocumentFetch = "anywhere",
    proxyFor: ProxyFor = EnvironmentProxies.proxyFor,
  ) {
    this.#isPublic = reach === "public";
    this.#proxyFor = proxyFor;
    const lookup = this.#isPublic ? { lookup: createPublicLookup() } : {};
    const settings = { ...pooling, maxSockets: maximumConnections, ...lookup };
    this.#plain = new HttpAgent(settings);
    this.#secure = new TlsAgent({ ...settings, ...tls }, proxyFor);
  }

  /** Sends a request. @returns The answer, of any status. @throws FetchError, or the reason of the signal. */
  send(outgoing: OutgoingRequest, maximumOctets: number): Promise<WholeAnswer> {
    return this.#perform(outgoing, readWhole(maximumOctets));
  }

  /**
   * Sends a request, and returns the answer's head. The caller must read or destroy the body. Only the
   * signal aborts it; the timeout ends with the head.
   * @throws FetchError, or the reason of the signal.
   */
  open(outgoing: OutgoingRequest): Promise<IncomingMessage> {
    return this.#perform(outgoing, readHead);
  }

  /** Keeps the open connections. A request that would need a new one fails. */
  settle(): void {
    this.#plain.createConnection = this.#secure.createConnection = () => {
      throw new FetchError("has closed the connection");
    };
  }

  /** Closes every connection; requests under way fail. */
  readonly close = (): void => {
    this.#plain.destroy();
    this.#secure.destroy();
  };

  async #perform<Answer>(outgoing: OutgoingRequest, read: AnswerReader<Answer>): Promise<Answer> {
    const proxy = this.#proxyOf(outgoing.target);
    if (this.#isPublic) requirePublic(outgoing.target, proxy !== undefined);
    const first = this.#begin(outgoing, proxy);
    try {
      return await exchange(first, outgoing, read);
    } catch (error) {
      if (!wasClosed(first, error)) throw error;
      return exchange(this.#begin(outgoing, proxy), outgoing, read);
    }
  }

  #proxyOf({ protocol, hostname, port }: Target): ProxyServer | undefined {
    const isTls = protocol === "https:";
    const host = hostname ?? "";
    return this.#proxyFor({ isTls, host, port: Number(port) || (isTls ? 443 : 80) });
  }

  #begin(outgoing: OutgoingRequest, proxy: ProxyServer | undefined): ClientRequest {
    const { target, method, headers, ca, connected } = outgoing;
    const { protocol, hostname, port, path } = target;
    const isPlain = protocol === "http:";
    const common = { hostname, port, path, method, headers };
    const request = isPlain
      ? httpRequest({ agent: this.#plain, ...common, ...(proxy && throughProxy(proxy, outgoing)) })
      : httpsRequest({ agent: this.#secure, ...common, ...(ca && { ca }) });
    if (connected)
      request.once("socket", (socket) =>
        socket.once(isPlain ? "connect" : "secureConnect", connected),
      );
    return request;
  }
}

/** The options of a request in plaintext that a proxy forwards (RFC 9112 §3.2.2). */
function throughProxy(
  { isTls, host, port, authorization }: ProxyServer,
  { target, headers }: OutgoingRequest,
) {
  if (isTls) throw new FetchError("is asked in plaintext, which no proxy over TLS is asked for");
  const asked = `${Host.bracketed(target.hostname ?? "")}${target.port ? `:${target.port}` : ""}`;
  return {
    hostname: host,
    port,
    path: `http://${asked}${target.path ?? "/"}`,
    headers: {
      host: asked,
      ...headers,
      ...(authorization && { "proxy-authorization": authorization }),
    },
  };
}

/** Refuses private hosts that no lookup sees: addresses in URLs, names that a proxy resolves. @throws FetchError */
function requirePublic({ hostname = "" }: Target, isProxied: boolean): void {
  const host = hostname ?? "";
  const isName = isIP(host) === 0;
  if (isName ? !isProxied || Host.isPublic(host) : Host.isPublicAddress(host)) return;
  throw notAnswered(createPrivateAddressError());
}

/** Whether the server closed an idle connection at the moment at which the client reused it. */
function wasClosed({ reusedSocket }: ClientRequest, error: unknown): boolean {
  const code = error instanceof Error ? errorCode(error.cause) : undefined;
  return reusedSocket && (code === "ECONNRESET" || code === "EPIPE");
}

type Resolve = (
  hostname: string,
  options: { readonly all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * Creates a lookup that never returns private addresses, and fails with `PRIVATE_ADDRESS` if there are no others. The
 * socket connects only to what it returns, so DNS rebinding gains nothing.
 */
export function createPublicLookup(resolve: Resolve = lookup): LookupFunction {
  return (hostname, options, callback) =>
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const usable = addresses?.filter(({ address }) => Host.isPublicAddress(address)) ?? [];
      const [first] = usable;
      if (error || !first) callback(error ?? createPrivateAddressError(), []);
      else if (options.all) callback(null, usable);
      else callback(null, first.address, first.family);
    });
}

/** The log shows this error's code when the key URL of a public issuer leads to a private address. */
const createPrivateAddressError = (): NodeJS.ErrnoException =>
  Object.assign(new Error("the address is private"), { code: "PRIVATE_ADDRESS" });

const maximumConnections = 32;

/** Some servers refuse a request without a user agent, and this client decompresses no answer. */
const usualHeaders = { "accept-encoding": "identity", "user-agent": "rampart" };

/** `fetch` on Node. It follows no redirect. A body that is neither text nor octets is not sent. */
export const NodeFetch = {
  /**
   * `fetch` that trusts these roots (PEM), or the system's. Node's own cannot trust a CA for some requests alone.
   * With Node's own, an answer with too many encodings ends the process by an error that no code can catch.
   */
  trusting(roots: string | undefined, reach?: keyof DocumentFetch): Fetch {
    return NodeFetch.with(roots === undefined ? {} : { ca: roots }, reach);
  },

  /** `fetch` with these roots and client certificate. */
  with(tls: ClientTls, reach?: keyof DocumentFetch, proxyFor?: ProxyFor): Fetch {
    return fetchBy(new HttpClient(tls, maximumConnections, reach, proxyFor), async () => undefined);
  },

  /**
   * `fetch` that trusts the roots of a file as they are at each request, because a kubelet swaps them when a cluster's
   * CA rotates. While the file cannot be read, the last roots stay in use.
   *
   * @throws OperatorError if the file cannot be read at the start.
   */
  async trustingFile(path: string | undefined): Promise<Fetch> {
    let known = await PemFile.readRoots(path);
    return fetchBy(new HttpClient({}, maximumConnections), async () => {
      known = await PemFile.readRoots(path).catch(() => known);
      return known;
    });
  },
};

function fetchBy(client: HttpClient, roots: () => Promise<string | undefined>): Fetch {
  return async (url, { method = "GET", headers, body, signal }) => {
    const response = await client.open({
      ca: await roots(),
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
  const init = { status, headers: RawHeaders.toHeaders(answer.rawHeaders) };
  if (status < 200 || status > 599) {
    answer.destroy();
    throw new FetchError(`answered with status ${status}`);
  }
  const isEmpty = bodiless.includes(status) || answer.headers["content-length"] === "0";
  if (!isEmpty) {
    return new Response(Readable.toWeb(answer) as ReadableStream<Uint8Array>, init);
  }
  answer.resume();
  return new Response(null, init);
}
