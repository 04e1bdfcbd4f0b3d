import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { parseRetryAfter, retryAfterHeader } from "../../foundation/headers.ts";
import {
  IstioCertificateRequestSchema,
  IstioCertificateResponseSchema,
  IstioCertificateService,
} from "../../gen/istio/v1/auth/ca_pb.ts";
import {
  CreateJwtSvidRequestSchema,
  CreateJwtSvidResponseSchema,
  JwtSvidService,
} from "../../gen/rampart/jwt/v1/jwt_svid_pb.ts";
import {
  createCertificatePath,
  createJwtSvidPath,
  tokenExchangePath,
} from "../../transport/http/routes.ts";
import { createFallback } from "../../transport/rpc/fallback.ts";
import { fastPathFor } from "../../transport/rpc/fast-path.ts";
import { bodyInTime } from "../../transport/rpc/request-body.ts";
import {
  type HttpAbilities,
  peerKey,
  type RpcResponse,
  type RpcService,
} from "../../transport/rpc/rpc.ts";
import { type Forwarding, forward, type Send } from "./forwarded-call.ts";

const platform: HttpAbilities = { hasTrailers: true };

/**
 * Forwards what the CA issues to the CA, by its paths. The gateway decides nothing but whose client certificate it
 * verified. On the fast path it does not parse the message or the answer.
 */
export function forwardingRpcs(forwarding: Forwarding): ReadonlyMap<string, RpcService> {
  const { createCertificate, createJwtSvid } = forwarding.upstream;
  return new Map([
    [
      createCertificatePath,
      forwardingRpc(forwarding, createCertificate, (router, forwarded) =>
        router.service(IstioCertificateService, {
          createCertificate: async (request, context) =>
            fromBinary(
              IstioCertificateResponseSchema,
              await forwarded(toBinary(IstioCertificateRequestSchema, request), context),
            ),
        }),
      ),
    ],
    [
      createJwtSvidPath,
      forwardingRpc(forwarding, createJwtSvid, (router, forwarded) =>
        router.service(JwtSvidService, {
          createJwtSvid: async (request, context) =>
            fromBinary(
              CreateJwtSvidResponseSchema,
              await forwarded(toBinary(CreateJwtSvidRequestSchema, request), context),
            ),
        }),
      ),
    ],
    [tokenExchangePath, forwardingExchange(forwarding)],
  ]);
}

/** Forwards a message in binary of a call that Connect has parsed. */
type ForwardParsed = (message: Uint8Array, context: HandlerContext) => Promise<Uint8Array>;

/** @param addTo Adds the RPC to Connect's router, which parses every call that the fast path does not take. */
function forwardingRpc(
  forwarding: Forwarding,
  send: Send<Uint8Array>,
  addTo: (router: ConnectRouter, forwarded: ForwardParsed) => void,
): RpcService {
  const parsed: ForwardParsed = (message, { requestHeader: header, signal, timeoutMs, values }) => {
    const call = { header, signal, timeoutMs: timeoutMs(), message: async () => message };
    return forward(forwarding, { ...call, peer: values.get(peerKey) }, send);
  };
  const fallback = createFallback({ addTo: (router) => addTo(router, parsed) }, platform);
  return async (request) => {
    const peer = request.contextValues?.get(peerKey) ?? {};
    const fastPath = fastPathFor(request, platform);
    return fastPath
      ? fastPath(request, (call) => forward(forwarding, { ...call, peer }, send))
      : fallback(request);
  };
}

const longestContentType = 100;

/** Forwards a form of OAuth. The token in it proves the caller, so that no other credential goes with it. */
function forwardingExchange(forwarding: Forwarding): RpcService {
  return async ({ header, body, signal, contextValues }) => {
    const type = (header.get("content-type") ?? "").slice(0, longestContentType);
    const send: Send<RpcResponse> = async (form, { headers, ...call }) => {
      const typed = { ...headers, "content-type": type };
      const answer = await forwarding.upstream.exchangeToken(form, { ...call, headers: typed });
      const wait = answer.headers[retryAfterHeader];
      return oauthAnswer(answer.status, Uint8Array.from(answer.octets), wait);
    };
    const peer = contextValues?.get(peerKey) ?? {};
    const message = () => bodyInTime(body(), signal);
    const call = { header, signal, timeoutMs: undefined, message, peer, isProvedByMessage: true };
    try {
      return await forward(forwarding, call, send);
    } catch (error) {
      const { code, metadata } = ConnectError.from(error);
      const isFormless = code === Code.ResourceExhausted || code === Code.DeadlineExceeded;
      const [status, name] = isFormless
        ? [400, "invalid_request"]
        : [503, "temporarily_unavailable"];
      const octets = new TextEncoder().encode(`${JSON.stringify({ error: name })}\n`);
      return oauthAnswer(Number(status), octets, metadata.get(retryAfterHeader));
    }
  };
}

function oauthAnswer(
  status: number,
  octets: Uint8Array<ArrayBuffer>,
  wait: string | null | undefined,
): RpcResponse {
  const header = {
    "content-type": "application/json",
    "content-length": String(octets.length),
    "cache-control": "no-store",
    ...(parseRetryAfter(wait) !== undefined && {
      [retryAfterHeader]: String(parseRetryAfter(wait)),
    }),
  };
  return { status, header, octets };
}
