import { Code, ConnectError } from "@connectrpc/connect";
import { codeFromHttpStatus, codeFromString } from "@connectrpc/connect/protocol-connect";
import * as z from "zod/mini";
import { ForwardingHeaders } from "../../authn/forwarding-headers.ts";
import { isRecent } from "../../foundation/caches.ts";
import { messageOf, OperatorError } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/fetch.ts";
import { RetryAfter } from "../../foundation/headers.ts";
import { jsonIn } from "../../foundation/json-members.ts";
import { jsonText } from "../../foundation/text.ts";
import { TokenFile } from "../../program/files/small-file.ts";
import { HttpClient, parseTarget } from "../../program/http/http-client.ts";
import type { WholeAnswer } from "../../program/http/http-exchange.ts";
import { IssuingPath } from "../../transport/http/paths.ts";

/** The CA behind a gateway or a signer. */
export interface Upstream {
  readonly createCertificate: UpstreamRpc;
  readonly createJwtSvid: UpstreamRpc;
  /**
   * Sends a form of OAuth.
   * @returns The CA's answer, also a refusal.
   *
   * @throws UpstreamFault for an answer that is no JSON of OAuth, and the reason of the signal.
   */
  readonly exchangeToken: (form: Uint8Array, call: UpstreamCall) => Promise<WholeAnswer>;
  readonly close: () => void;
}

/**
 * Sends a message of an RPC, in protobuf.
 * @returns The CA's answer, in protobuf.
 *
 * @throws UpstreamRefusal for a refusal of the CA, and the reason of the signal. UpstreamFault means that the CA is
 *   unreachable, or that something else answered in its place.
 */
type UpstreamRpc = (message: Uint8Array, call: UpstreamCall) => Promise<Uint8Array>;

/** The headers and the bounds of one call to the CA. */
export interface UpstreamCall {
  readonly headers: Readonly<Record<string, string>>;
  /** Aborts the call, which then rejects with the reason of the signal. */
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number | undefined;
}

/** Reads the headers with a program's own credential. */
export type GatewayCredentials = () => Promise<{
  readonly authorization: string;
  readonly clusterid: string;
}>;

const claimsSchema = z.pipe(jsonText, z.object({ exp: z.number() }));

/**
 * The credential of a token in a file, read anew by each call. A token without a readable `exp` counts as unexpired.
 *
 * @throws OperatorError for a file without a token, and for an expired token: if the CA refused it, that would look like
 *   a refusal of the caller's credential.
 */
export function tokenInFile(
  path: string,
  clusterid: string,
  clock: () => Date,
): GatewayCredentials {
  return async () => {
    const token = await TokenFile.read(path);
    const claims = Buffer.from(token.split(".")[1] ?? "", "base64url").toString();
    const { exp = Infinity } = claimsSchema.safeParse(claims).data ?? {};
    if (1000 * exp > clock().getTime()) return { authorization: `Bearer ${token}`, clusterid };
    throw new OperatorError(`${path} holds a token that has expired`);
  };
}

/** Reads a program's own `authorization`, or why there is none. Never rejects. */
export type OwnAuthorization = () => Promise<{
  readonly authorization?: string;
  readonly fault?: string;
}>;

const rememberedSeconds = 5;

/** Remembers a program's own `authorization`, or that it has none, for a few seconds. */
export function rememberedAuthorization(
  credentials: GatewayCredentials,
  clock: () => Date,
): OwnAuthorization {
  let known: ReturnType<OwnAuthorization> | undefined;
  let readAt: Date | undefined;
  return () => {
    const now = clock();
    if (known && isRecent(readAt, rememberedSeconds, now)) return known;
    readAt = now;
    known = credentials().catch((error: unknown) => ({ fault: messageOf(error) }));
    return known;
  };
}

const contentType = "application/proto";
const maximumConnections = 256;
const maximumOctets = 256 * 1024;
/** No CA waits longer, and Connect's header has at most ten digits. */
const longestTimeoutMs = 1e9;

/**
 * Opens a client of the CA with a pool of connections. It opens no connection before the first call. Changed roots
 * apply to new connections only.
 * @param roots PEM of the roots that verify the CA's own certificate, read at each call; `undefined` for the system's.
 */
export function openUpstream(url: string, roots: () => string | undefined): Upstream {
  const client = new HttpClient({}, maximumConnections);
  const poster = (path: string) => {
    const target = parseTarget(`${url}${path}`);
    return (body: Uint8Array, headers: Record<string, string>, signal?: AbortSignal) =>
      client
        .send({ target, method: "POST", headers, body, signal, ca: roots() }, maximumOctets)
        .catch(toUpstreamFault);
  };
  const rpc = (path: string, codes: ReadonlySet<Code> = forwardedCodes): UpstreamRpc => {
    const post = poster(path);
    return async (message, { headers, signal, timeoutMs }) => {
      const answer = await post(message, { ...headers, ...connectHeaders(timeoutMs) }, signal);
      if (isMessage(answer)) return answer.octets;
      throw refusalIn(answer, codes);
    };
  };
  const postForm = poster(IssuingPath.tokenExchange);
  return {
    createCertificate: rpc(IssuingPath.createCertificate),
    createJwtSvid: rpc(IssuingPath.createJwtSvid, codesOfTokens),
    exchangeToken: async (form, { headers, signal }) => {
      const answer = await postForm(form, { ...headers, "accept-encoding": "identity" }, signal);
      if (isOfOauth(answer)) return answer;
      const { status } = answer;
      throw new UpstreamFault(`the CA answered with status ${status}`, status);
    },
    close: client.close,
  };
}

const oauthStatuses: readonly number[] = [200, 400, 404, 429, 503];

function isOfOauth({ status, headers, octets }: WholeAnswer): boolean {
  const isJson = headers["content-type"] === "application/json";
  return isJson && oauthStatuses.includes(status) && oauthSchema.safeParse(jsonIn(octets)).success;
}

function connectHeaders(timeoutMs: number | undefined): Record<string, string> {
  return {
    "content-type": contentType,
    "connect-protocol-version": "1",
    // Uncompressed: compressed messages do not pass Cloudflare's edge (docs/explanation/platform.md#native-grpc).
    "accept-encoding": "identity",
    ...(timeoutMs !== undefined && {
      "connect-timeout-ms": String(Math.ceil(Math.min(timeoutMs, longestTimeoutMs))),
    }),
  };
}

function isMessage({ status, headers }: WholeAnswer): boolean {
  return status === 200 && headers["content-type"] === contentType;
}

/** The codes of the CA that are passed on to the caller. Any other becomes `Unavailable`. */
const forwardedCodes: ReadonlySet<Code> = new Set([
  Code.Unauthenticated,
  Code.PermissionDenied,
  Code.InvalidArgument,
  Code.ResourceExhausted,
  Code.DeadlineExceeded,
  Code.Canceled,
  Code.Internal,
]);

/** Includes `Unimplemented`, because a CA may issue no tokens. */
const codesOfTokens: ReadonlySet<Code> = new Set([...forwardedCodes, Code.Unimplemented]);

const errorSchema = z.object({ code: z.string(), message: z._default(z.string(), "refused") });
const oauthSchema = z.union([
  z.object({ access_token: z.string() }),
  z.object({ error: z.string() }),
]);
const longestMessage = 512;

/** The CA's own refusal of a call, which is passed on to the caller. */
export class UpstreamRefusal extends ConnectError {
  readonly status: number;

  constructor(message: string, code: Code, status: number, metadata: Record<string, string> = {}) {
    super(message, code, metadata);
    this.status = status;
  }

  // A subclass would inherit ConnectError's test, which is true for every error of its shape.
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof ConnectError && "status" in value;
  }
}

/** The CA itself gave no answer. The message is one sentence with the cause. */
export class UpstreamFault extends Error {
  override readonly name = "UpstreamFault";
  /** The HTTP status of what answered in the CA's place. */
  readonly status: number | undefined;

  constructor(message: string, status?: number, cause?: unknown) {
    super(message, { cause });
    this.status = status;
  }
}

function toUpstreamFault(error: unknown): never {
  if (!(error instanceof FetchError)) throw error;
  throw new UpstreamFault(`the CA ${error.message}`, error.status, error);
}

/** The error for an unsuccessful answer: a refusal of the CA, or a fault if a proxy answered in its place. */
function refusalIn(
  { status, headers, octets }: WholeAnswer,
  codes: ReadonlySet<Code>,
): UpstreamRefusal | UpstreamFault {
  const { data: error } = errorSchema.safeParse(jsonIn(octets));
  const named = codeFromString(error?.code ?? "");
  const code = named ?? codeFromHttpStatus(status);
  // A proxy without the path answers 404, which counts as Unimplemented too.
  const isProxys = named === undefined && code === Code.Unimplemented;
  if (status === 200 || isProxys || !codes.has(code))
    return new UpstreamFault(`the CA answered with status ${status}`, status);
  if (error?.message === ForwardingHeaders.refusal)
    return new UpstreamFault("the CA refuses the gateway's own credential", status);
  // Shortened and well-formed, so that it can be sent as a trailer.
  const message = error?.message.slice(0, longestMessage).toWellFormed();
  const seconds = RetryAfter.parse(headers[RetryAfter.header]);
  const metadata = seconds === undefined ? {} : { [RetryAfter.header]: String(seconds) };
  return new UpstreamRefusal(message ?? `refused with status ${status}`, code, status, metadata);
}
