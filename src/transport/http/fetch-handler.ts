import { createContextValues } from "@connectrpc/connect";
import type { CertificateAuthority } from "../certificate-authority.ts";
import { newAudit } from "../rpc/audited-call.ts";
import { requestBody } from "../rpc/request-body.ts";
import { type Peer, peerKey, type RpcResponse, type RpcService } from "../rpc/rpc.ts";

/** The peer of a request, as the platform knows it. */
export type PeerOf = (request: Request) => Peer;

/** An RPC over Connect and gRPC-Web, or a form of OAuth, where a platform speaks fetch. */
export function createFetchHandler(
  ca: CertificateAuthority,
  rpc: RpcService,
  peerOf: PeerOf,
): (request: Request) => Promise<Response> {
  return async (request) => {
    const peer = peerOf(request);
    if (isGrpcContentType(request.headers.get("content-type")))
      return refuseNativeGrpc(ca, request.headers, peer);
    return toResponse(
      await rpc({
        httpVersion: "",
        method: request.method,
        url: request.url,
        header: request.headers,
        headers: () => request.headers,
        body: () => requestBody(request),
        signal: request.signal,
        contextValues: createContextValues().set(peerKey, peer),
      }),
    );
  };
}

/** Whether a request of this content type is native gRPC, which needs trailers. */
export function isGrpcContentType(contentType: string | null | undefined): boolean {
  return /^application\/grpc(?:$|[+;])/i.test(contentType ?? "");
}

const unimplemented = "12";
const nativeGrpcSentence =
  "native gRPC cannot be answered here: use Connect, gRPC-Web, a gateway, or gRPC of Cloudflare's zone";

function refuseNativeGrpc({ log }: CertificateAuthority, headers: Headers, peer: Peer): Response {
  log.audit({
    ...newAudit(headers, peer),
    detail: nativeGrpcSentence,
    durationMilliseconds: 0,
  });
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
