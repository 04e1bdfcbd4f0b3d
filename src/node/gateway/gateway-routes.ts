import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { parseClientCertificate } from "../../authn/certificate/client-certificate.ts";
import { forwardedHeader, forwardedValue } from "../../authn/certificate/forwarded-certificate.ts";
import type { EventLog } from "../../ca/audit-event.ts";
import { CaError, messageOf } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/json-fetch.ts";
import {
  IstioCertificateRequestSchema,
  IstioCertificateResponseSchema,
} from "../../gen/istio/v1/auth/ca_pb.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { toPem } from "../../pki/encoding/pem.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { clientCertificateKey } from "../../transport/client-certificate.ts";
import { toConnectError } from "../../transport/rpc/connect-error.ts";
import { createFallback, type FallbackMethod } from "../../transport/rpc/fallback.ts";
import { fastPathFor } from "../../transport/rpc/fast-path/fast-path.ts";
import type { UnaryCall } from "../../transport/rpc/fast-path/unary-call.ts";
import { chunkedBody } from "../../transport/rpc/request-body.ts";
import type { Platform, RpcRequest } from "../../transport/rpc/rpc.ts";
import type { UnaryRpc } from "../http/routes.ts";
import type { GatewayCredentials } from "./gateway-identity.ts";
import type { Upstream } from "./upstream.ts";

/** Where calls go, and as whom. */
export interface Forwarding {
  readonly upstream: Upstream;
  readonly credentials: GatewayCredentials;
  readonly trustDomain: TrustDomain;
  readonly log: EventLog;
  readonly clock: () => Date;
}

const platform: Platform = { hasTrailers: true };

/** A call, and the certificate that its caller has shown. */
type ForwardedCall = UnaryCall & { readonly clientCertificate: Bytes | undefined };

/**
 * The CA's RPC, answered by the CA behind. Nothing is decided here but who has shown a certificate: the
 * message of a plain call and its answer pass through unread.
 */
export function forwardingRpc(forwarding: Forwarding): UnaryRpc {
  const fallback = createFallback(forwardingMethod(forwarding), platform);
  return async ({ body, ...request }) => {
    const clientCertificate = request.contextValues?.get(clientCertificateKey);
    const bounded: RpcRequest = { ...request, body: (signal) => chunkedBody(body, signal) };
    const fastPath = fastPathFor(bounded, platform);
    return fastPath
      ? fastPath(bounded, (call) => forward(forwarding, { ...call, clientCertificate }))
      : fallback(bounded);
  };
}

/** Every call that the fast path does not take is read and written by Connect. */
function forwardingMethod(forwarding: Forwarding): FallbackMethod {
  return {
    createCertificate: async (request, { requestHeader, signal, timeoutMs, values }) => {
      const answer = await forward(forwarding, {
        header: requestHeader,
        signal,
        timeoutMs: timeoutMs(),
        message: async () => toBinary(IstioCertificateRequestSchema, request),
        clientCertificate: values.get(clientCertificateKey),
      });
      return fromBinary(IstioCertificateResponseSchema, answer);
    },
  };
}

async function forward(forwarding: Forwarding, call: ForwardedCall): Promise<Uint8Array> {
  const { upstream, log, clock } = forwarding;
  const begun = clock();
  let code = "ok";
  try {
    const headers = await headersFor(forwarding, call);
    const { signal, timeoutMs } = call;
    return await upstream.createCertificate(await call.message(), { headers, signal, timeoutMs });
  } catch (error) {
    const answer = toCallersError(error, log);
    code = Code[answer.code];
    throw answer;
  } finally {
    const durationMilliseconds = clock().getTime() - begun.getTime();
    const detail = "a call of CreateCertificate was passed on";
    log.operation({ event: "forwarded", level: "info", detail, code, durationMilliseconds });
  }
}

/**
 * Whoever has shown a certificate is forwarded by the gateway, in its own name; everybody else speaks
 * with the token that came along. What a caller has forwarded itself stays here.
 */
async function headersFor(
  { credentials, trustDomain, clock }: Forwarding,
  { header, clientCertificate }: ForwardedCall,
): Promise<Record<string, string>> {
  if (clientCertificate) {
    // Looked at once more: a connection may outlive the certificate that opened it.
    const { spiffeId } = parseClientCertificate(clientCertificate, trustDomain, clock());
    const forwarded = forwardedValue(toPem("CERTIFICATE", clientCertificate), spiffeId);
    return { ...(await credentials()), [forwardedHeader]: forwarded };
  }
  const authorization = header.get("authorization");
  const clusterid = header.get("clusterid");
  if (authorization !== null) return { authorization, ...(clusterid !== null && { clusterid }) };
  throw new ConnectError("request authentication failed", Code.Unauthenticated);
}

/** Whatever keeps the CA from answering is no fault of the caller's, who may try again. */
function toCallersError(error: unknown, log: EventLog): ConnectError {
  if (error instanceof ConnectError) return error;
  if (error instanceof CaError) return toConnectError(error.refusal);
  const detail = error instanceof FetchError ? `the CA ${error.message}` : messageOf(error);
  log.operation({ event: "upstream-unavailable", level: "warning", detail });
  return new ConnectError("certificate authority is temporarily unavailable", Code.Unavailable);
}
