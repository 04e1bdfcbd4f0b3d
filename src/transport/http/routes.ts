import type { Hono } from "hono";
import { readinessIn } from "../../ca/readiness.ts";
import { PublishedCrls } from "../../ca/revocation/published-crls.ts";
import { CaError, messageOf } from "../../foundation/errors.ts";
import type { Readiness } from "../../foundation/events.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import { createCertificateService, createJwtSvidService } from "../rpc/certificate-service.ts";
import { newAudit } from "../rpc/internal/issuing-calls.ts";
import { RequestBody, requestBody } from "../rpc/request-body.ts";
import type { Peer, PeerOf, RpcRequest, RpcResponse, RpcService } from "../rpc/rpc.ts";
import { createTokenExchange } from "../rpc/token-exchange.ts";
import { LongPolls } from "./long-poll.ts";
import { IssuingPath, pathOf } from "./paths.ts";
import { PolledEndpoint } from "./polled-endpoint.ts";
import { createProbedApp } from "./probes.ts";
import { addTrustDocuments } from "./trust-routes.ts";

/** The answers over fetch, which has no trailers. */
const withoutTrailers = { hasTrailers: false };

/** The routes of a CA. */
export const CaRoutes = {
  /**
   * The routes of a CA over HTTP: probes, trust bundles, CRLs, the documents of tokens, the log, the RPCs and the token
   * exchange. By default, no call has a client certificate or an address.
   *
   * @param ending Aborted when the server ends; every long poll is then answered.
   */
  create(ca: CertificateAuthority, peerOf: PeerOf = () => ({}), ending?: AbortSignal): Hono {
    const app = createProbedApp(() => readinessOf(ca));
    const longPolls = new LongPolls(() => ca.longPollLimits, peerOf, ending);
    const handlerOf = (rpc: RpcService) => createFetchHandler(ca, rpc, peerOf);
    const createCertificate = handlerOf(createCertificateService(ca, withoutTrailers));
    app.all(IssuingPath.createCertificate, (c) => createCertificate(c.req.raw));
    const createJwtSvid = handlerOf(createJwtSvidService(ca, withoutTrailers));
    app.all(IssuingPath.createJwtSvid, (c) => createJwtSvid(c.req.raw));
    const exchangeToken = handlerOf(createTokenExchange(ca));
    app.all(IssuingPath.tokenExchange, (c) => exchangeToken(c.req.raw));
    addTrustDocuments(app, ca, longPolls);
    ca.publishedLog?.addRoutes(app);
    const faulty = (error: unknown): Response => {
      // A refusal is no defect, and the load of the store has logged why it failed, once for all requests.
      if (!(error instanceof CaError)) {
        ca.log.operation({ event: "http-fault", level: "error", detail: messageOf(error) });
      }
      return PolledEndpoint.unavailable(ca.clock());
    };
    app.onError(faulty);
    const { fetch } = app;
    // Nearly every request is the RPC, and the router costs as much as reading its headers.
    app.fetch = (request, ...rest) =>
      pathOf(request) === IssuingPath.createCertificate
        ? createCertificate(request).catch(faulty)
        : fetch(request, ...rest);
    return app;
  },

  /** Whether a certificate could be signed now. */
  async isReady(ca: CertificateAuthority): Promise<boolean> {
    return (await readinessOf(ca)).ready;
  },

  /**
   * The app in place of a CA whose configuration is invalid. `/readyz` has the faults, `/healthz` is 200. Every other
   * path gets 503, because the same request succeeds once the faults are mended.
   */
  misconfigured(faults: readonly string[]): Hono {
    const reasons = faults.map((fault) => `configuration: ${fault}`);
    const app = createProbedApp(() => ({ ready: false, reasons }));
    app.all("*", (c) =>
      c.json({ code: "unavailable", message: "certificate authority is not configured" }, 503),
    );
    return app;
  },
};

/** Whether the CA can sign now. Even then there may be reasons, such as a record that does not open. */
async function readinessOf(
  ca: CertificateAuthority,
): Promise<Readiness & { readonly authority?: string }> {
  try {
    const view = await ca.issuance.authorities.at(ca.clock());
    const { ready, reasons } = await readinessIn(view, ca.issuance, ca.clock());
    const authority = view.issuer && { authority: view.issuer.authority.id };
    const gaps = ca.crls ? PublishedCrls.gapsIn(view) : [];
    return { ready, ...authority, reasons: [...view.reasons, ...reasons, ...gaps] };
  } catch (error) {
    if (error instanceof CaError) return { ready: false, reasons: [error.message] };
    throw error;
  }
}

/** An RPC or the token exchange, where a platform speaks fetch. Native gRPC is refused with 415, and audited. */
export function createFetchHandler(
  ca: CertificateAuthority,
  rpc: RpcService,
  peerOf: PeerOf,
): (request: Request) => Promise<Response> {
  return async (request) => {
    const peer = peerOf(request);
    if (RequestBody.isGrpc(request.headers.get("content-type")))
      return refuseNativeGrpc(ca, request.headers, peer);
    return toResponse(await rpc(rpcRequestOf(request, peer)));
  };
}

/** A request of `fetch` as one of an RPC. */
export function rpcRequestOf(request: Request, peer: Peer): RpcRequest {
  const { method, url, headers: header, signal } = request;
  return {
    httpVersion: "",
    method,
    url,
    header,
    headers: () => header,
    body: () => requestBody(request),
    signal,
    peer,
  };
}

const unimplemented = "12";
const nativeGrpcSentence =
  "native gRPC cannot be answered here: use Connect, gRPC-Web, a gateway, or gRPC of Cloudflare's zone";

function refuseNativeGrpc({ log }: CertificateAuthority, headers: Headers, peer: Peer): Response {
  log.audit({ ...newAudit(headers, peer), detail: nativeGrpcSentence, durationMilliseconds: 0 });
  return new Response(`${nativeGrpcSentence}\n`, {
    status: 415,
    headers: { "grpc-status": unimplemented, "grpc-message": nativeGrpcSentence },
  });
}

/**
 * An answer over gRPC-Web must remain a stream: Cloudflare's edge does not convert one with a
 * Content-Length to gRPC (docs/explanation/platform.md, Native gRPC).
 */
function toResponse({ status, header, octets }: RpcResponse): Response {
  const isGrpcWeb = header["content-type"]?.startsWith("application/grpc-web") === true;
  return new Response(isGrpcWeb ? streamOf(octets) : octets, { status, headers: header });
}

function streamOf(body: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(body);
      controller.close();
    },
  });
}
