import { Code, ConnectError, createConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { parseClientCertificate } from "../authn/client-certificate.ts";
import { forwardedHeader } from "../authn/forwarded-certificate.ts";
import type { EventLog } from "../ca/audit-event.ts";
import { CaError } from "../errors.ts";
import {
  type IstioCertificateRequest,
  IstioCertificateService,
} from "../gen/istio/v1/auth/ca_pb.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { clientCertificateKey } from "../transport/client-certificate.ts";
import { toConnectError } from "../transport/connect-error.ts";
import { maximumBodyOctets } from "../transport/request-body.ts";
import type { GatewayCredentials } from "./gateway-identity.ts";
import type { Rpc } from "./site.ts";
import type { Upstream } from "./upstream.ts";

/** Where calls go, and as whom. */
export interface Forwarding {
  readonly upstream: Upstream;
  readonly credentials: GatewayCredentials;
  readonly trustDomain: TrustDomain;
  readonly log: EventLog;
  readonly clock: () => Date;
}

/** The CA's RPC, answered by the CA behind. Nothing is decided here but who has shown a certificate. */
export function forwardingRpc(forwarding: Forwarding): Rpc {
  const router = createConnectRouter({
    readMaxBytes: maximumBodyOctets,
    writeMaxBytes: 4 * maximumBodyOctets,
  });
  router.service(IstioCertificateService, {
    createCertificate: (request, context) => forward(forwarding, request, context),
  });
  const [handler] = router.handlers;
  if (!handler) throw new Error("the router has no handler of CreateCertificate");
  return handler;
}

async function forward(
  forwarding: Forwarding,
  request: IstioCertificateRequest,
  context: HandlerContext,
): Promise<{ certChain: string[] }> {
  const { upstream, log, clock } = forwarding;
  const begun = clock();
  let code = "ok";
  try {
    const headers = await headersFor(forwarding, context);
    const timeoutMs = context.timeoutMs();
    const options = {
      headers,
      signal: context.signal,
      ...(timeoutMs !== undefined && { timeoutMs }),
    };
    const call = () => upstream.client.createCertificate(request, options);
    return await call().catch((error: unknown) => {
      if (!isCut(error)) throw error;
      return call();
    });
  } catch (error) {
    const answer = toCallersError(error);
    code = Code[answer.code];
    if (answer.code === Code.Unavailable) logOutage(log, error);
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
  { values, requestHeader }: HandlerContext,
): Promise<Headers> {
  const clientCertificate = values.get(clientCertificateKey);
  if (clientCertificate) {
    // Looked at once more: a connection may outlive the certificate that opened it.
    const { spiffeId } = parseClientCertificate(clientCertificate, trustDomain, clock());
    return new Headers({ ...(await credentials()), [forwardedHeader]: `URI=${spiffeId}` });
  }
  const headers = new Headers();
  for (const name of ["authorization", "clusterid"]) {
    const value = requestHeader.get(name);
    if (value !== null) headers.set(name, value);
  }
  if (headers.has("authorization")) return headers;
  throw new ConnectError("request authentication failed", Code.Unauthenticated);
}

/**
 * Whether the connection was gone: the CA may close one that was kept just as it is used again. A call
 * is worth a second try then, because at the worst the first has issued a certificate for nobody.
 */
function isCut(error: unknown): boolean {
  return error instanceof ConnectError && error.code === Code.Aborted && error.cause !== undefined;
}

/** What the CA itself has said, in its words. */
const passedOn: ReadonlySet<Code> = new Set([
  Code.Unauthenticated,
  Code.PermissionDenied,
  Code.InvalidArgument,
  Code.ResourceExhausted,
  Code.DeadlineExceeded,
  Code.Canceled,
  Code.Internal,
]);

/** Whatever lies between here and the CA is no fault of the caller's, who may try again. */
function toCallersError(error: unknown): ConnectError {
  if (error instanceof CaError) return toConnectError(error.refusal);
  if (error instanceof ConnectError && error.cause === undefined && passedOn.has(error.code)) {
    return new ConnectError(error.rawMessage, error.code);
  }
  return new ConnectError("certificate authority is temporarily unavailable", Code.Unavailable);
}

function logOutage(log: EventLog, error: unknown): void {
  const detail = error instanceof Error ? error.message : "something that is not an error";
  log.operation({ event: "upstream-unavailable", level: "warning", detail });
}
