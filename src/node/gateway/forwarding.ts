import {
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import { Code, ConnectError, createContextKey } from "@connectrpc/connect";
import { RetryAfter } from "../../foundation/headers.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import { JwtSvidService } from "../../gen/rampart/jwt/v1/jwt_svid_pb.ts";
import { IssuingPath } from "../../transport/http/paths.ts";
import { createFallback } from "../../transport/rpc/fallback.ts";
import { fastPathFor } from "../../transport/rpc/fast-path.ts";
import { RequestBody } from "../../transport/rpc/request-body.ts";
import {
  type HttpAbilities,
  Peer,
  type RpcResponse,
  type RpcService,
} from "../../transport/rpc/rpc.ts";
import { admit, type Forwarding, forward, type Send, type Sending } from "./forwarded-call.ts";

const platform: HttpAbilities = { hasTrailers: true };

/**
 * Proxies the issuance RPCs to the CA, routed by path. The gateway adds the client certificate that it has verified,
 * and decides nothing else. On the fast path it parses neither the request message nor the response.
 */
export function forwardingRpcs(forwarding: Forwarding): ReadonlyMap<string, RpcService> {
  const { createCertificate, createJwtSvid } = forwarding.upstream;
  const certificates = IstioCertificateService.method.createCertificate;
  return new Map([
    [IssuingPath.createCertificate, forwardingRpc(forwarding, certificates, createCertificate)],
    [
      IssuingPath.createJwtSvid,
      forwardingRpc(forwarding, JwtSvidService.method.createJwtSvid, createJwtSvid),
    ],
    [IssuingPath.tokenExchange, forwardingExchange(forwarding)],
  ]);
}

const sendingKey = createContextKey<Sending>(() => {
  throw new Error("a call that nobody has admitted");
});

/** Forwards an RPC. Calls beyond the fast path are parsed by Connect, once they have a credential. */
function forwardingRpc<I extends DescMessage, O extends DescMessage>(
  forwarding: Forwarding,
  method: DescMethodUnary<I, O>,
  send: Send<Uint8Array>,
): RpcService {
  const fallback = createFallback(
    platform,
    method,
    async (request, { values }) => {
      const answer = await values.get(sendingKey)(
        async () => toBinary(method.input, request),
        send,
      );
      return fromBinary(method.output, answer) as MessageInitShape<O>;
    },
    async ({ requestHeader: header, signal, values, timeoutMs }) => {
      const call = { header, signal, timeoutMs: timeoutMs(), peer: values.get(Peer.key) };
      values.set(sendingKey, await admit(forwarding, call));
    },
  );
  return async (request) => {
    const { peer } = request;
    const fastPath = fastPathFor(request, platform);
    return fastPath
      ? fastPath(request, (call) => forward(forwarding, { ...call, peer }, send))
      : fallback(request);
  };
}

const longestContentType = 100;

/** Forwards a form of OAuth. The token in it proves the caller, so no other credential is sent with it. */
function forwardingExchange(forwarding: Forwarding): RpcService {
  return async ({ header, body, signal, peer }) => {
    const type = (header.get("content-type") ?? "").slice(0, longestContentType);
    const send: Send<RpcResponse> = async (form, { headers, ...call }) => {
      const typed = { ...headers, "content-type": type };
      const answer = await forwarding.upstream.exchangeToken(form, { ...call, headers: typed });
      const wait = answer.headers[RetryAfter.header];
      return oauthAnswer(answer.status, Uint8Array.from(answer.octets), wait);
    };
    const message = () => RequestBody.inTime(body(), signal);
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
      return oauthAnswer(Number(status), octets, metadata.get(RetryAfter.header));
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
    ...(RetryAfter.parse(wait) !== undefined && {
      [RetryAfter.header]: String(RetryAfter.parse(wait)),
    }),
  };
  return { status, header, octets };
}
