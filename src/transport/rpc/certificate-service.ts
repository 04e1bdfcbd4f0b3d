import {
  Code,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
} from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerResponse } from "@connectrpc/connect/protocol";
import type { AuditEvent } from "../../ca/audit-event.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import { concatBytes } from "../../pki/encoding/bytes.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import { clientCertificateKey } from "../client-certificate.ts";
import {
  answering,
  authenticate,
  type Call,
  createCertificate,
  createInBinary,
} from "./create-certificate.ts";
import { fastPathFor } from "./fast-path/fast-path.ts";
import { maximumBodyOctets } from "./request-body.ts";
import type { RpcRequest, RpcResponse } from "./rpc.ts";
import { statusCodeOf } from "./status-code.ts";

/** Answers calls of `CreateCertificate`. Never rejects for what a caller does. */
export type CertificateService = (request: RpcRequest) => Promise<RpcResponse>;

const callKey = createContextKey<Call | undefined>(undefined);

/**
 * Istio's `IstioCertificateService` over Connect and gRPC-Web and, where the platform has trailers,
 * native gRPC.
 *
 * The caller is authenticated before a byte of the message is read. Every call leaves one audit
 * event, whatever becomes of it.
 */
export function createCertificateService(
  ca: CertificateAuthority,
  { hasTrailers }: { readonly hasTrailers: boolean },
): CertificateService {
  const handler = createHandler(ca, hasTrailers);
  return async (request) => {
    const now = ca.clock();
    const audit: AuditEvent = {
      event: "create-certificate",
      outcome: "refused",
      reason: "rpc-malformed",
    };
    const contextValues = request.contextValues ?? createContextValues();
    const call: Call = { now, audit, clientCertificate: contextValues.get(clientCertificateKey) };
    const answer = fastPathFor(request, hasTrailers);
    const response = answer
      ? await answer(request, (unary) => createInBinary(ca, call, unary))
      : await complete(
          handler({
            ...request,
            body: request.body(() => call.signal),
            contextValues: contextValues.set(callKey, call),
          }),
        );
    if (audit.reason === "rpc-malformed") audit.detail = refusalOf(response);
    audit.durationMilliseconds = ca.clock().getTime() - now.getTime();
    ca.log.audit(audit);
    return response;
  };
}

function createHandler(ca: CertificateAuthority, hasTrailers: boolean): UniversalHandler {
  const router = createConnectRouter({
    // Without trailers, native gRPC could not say how a call ended (platform facts, §1).
    grpc: hasTrailers,
    grpcWeb: true,
    connect: true,
    readMaxBytes: maximumBodyOctets,
    writeMaxBytes: 4 * maximumBodyOctets,
    requestGate: (context) =>
      answering(callOf(context), context.signal, (call) =>
        authenticate(ca, call, context.requestHeader),
      ),
  });
  router.service(IstioCertificateService, {
    createCertificate: (request, context) =>
      answering(callOf(context), context.signal, (call) =>
        createCertificate(ca, call, request, context.signal),
      ),
  });
  const [handler] = router.handlers;
  if (!handler) throw new Error("the router has no handler of CreateCertificate");
  return handler;
}

function callOf({ values }: HandlerContext): Call {
  const call = values.get(callKey);
  if (!call) throw new Error("a call without its context");
  return call;
}

/** Complete before it leaves, so that the audit event of a call is written once its outcome is certain. */
export async function complete(answered: Promise<UniversalServerResponse>): Promise<RpcResponse> {
  const { body, ...response } = await answered;
  const chunks: Uint8Array[] = [];
  for await (const chunk of body ?? []) chunks.push(chunk);
  return { ...response, octets: concatBytes(...chunks) };
}

/** How the RPC layer itself refused a call: its code, without its sentence, which may quote the message. */
function refusalOf(response: RpcResponse): string {
  const code = statusCodeOf(response);
  return `refused by the RPC layer: HTTP ${response.status}${code ? `, code ${Code[code]}` : ""}`;
}
