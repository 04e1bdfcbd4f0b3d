import {
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
} from "@connectrpc/connect";
import type {
  UniversalHandler,
  UniversalServerRequest,
  UniversalServerResponse,
} from "@connectrpc/connect/protocol";
import type { Caller } from "../authn/caller.ts";
import type { AuditEvent } from "../ca/audit-event.ts";
import { type CertificateRequest, issueCertificate } from "../ca/issue-certificate.ts";
import { CaError } from "../errors.ts";
import {
  type IstioCertificateRequest,
  IstioCertificateService,
} from "../gen/istio/v1/auth/ca_pb.ts";
import { type Bytes, concatBytes } from "../pki/bytes.ts";
import { auditFailure } from "./audit-failure.ts";
import type { CertificateAuthority } from "./certificate-authority.ts";
import { clientCertificateKey } from "./client-certificate.ts";
import { toConnectError } from "./connect-error.ts";
import { withPatience } from "./patience.ts";
import { maximumBodyOctets } from "./request-body.ts";

/** The signal of a call, which begins before its body is read. */
export type SignalOf = () => AbortSignal | undefined;

/** A call as any platform hands it over, its body not read yet. */
export type RpcRequest = Omit<UniversalServerRequest, "body"> & {
  /** Bounded in size and time by the platform, with the means of `request-body.ts`. */
  readonly body: (signalOf: SignalOf) => AsyncIterable<Uint8Array>;
};

/** An answer, complete before it leaves. */
export interface RpcResponse extends UniversalServerResponse {
  readonly body: AsyncIterable<Uint8Array>;
  readonly octets: Bytes;
}

/** Answers calls of `CreateCertificate`. Never rejects for what a caller does. */
export type CertificateRpc = (request: RpcRequest) => Promise<RpcResponse>;

/** What one call has established so far. */
interface Call {
  readonly now: Date;
  readonly audit: AuditEvent;
  readonly clientCertificate: Bytes | undefined;
  caller?: Caller;
  /** Aborted when nobody waits for the answer any more; known once the call has begun. */
  signal?: AbortSignal;
}

const callKey = createContextKey<Call | undefined>(undefined);

/** Whatever deadline a client asks for, nothing takes longer than this, in milliseconds. */
const maximumTimeout = 30_000;

/**
 * Istio's `IstioCertificateService` over Connect and gRPC-Web and, where the platform has trailers,
 * native gRPC.
 *
 * The caller is authenticated before a byte of the message is read. Every call leaves one audit
 * event, whatever becomes of it.
 */
export function createCertificateRpc(
  ca: CertificateAuthority,
  { hasTrailers }: { readonly hasTrailers: boolean },
): CertificateRpc {
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
    const response = await handler({
      ...request,
      body: request.body(() => call.signal),
      contextValues: contextValues.set(callKey, call),
    });
    const octets = await octetsOf(response);
    if (audit.reason === "rpc-malformed") audit.detail = refusalOf(response, octets);
    audit.durationMilliseconds = ca.clock().getTime() - now.getTime();
    ca.log.audit(audit);
    return { ...response, octets, body: once(octets) };
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
    requestGate: (context) => answering(context, (call) => authenticate(ca, call, context)),
  });
  router.service(IstioCertificateService, {
    createCertificate: (request, context) =>
      answering(context, (call) => createCertificate(ca, call, request, context.signal)),
  });
  const [handler] = router.handlers;
  if (!handler) throw new Error("the router has no handler of CreateCertificate");
  return handler;
}

async function authenticate(
  ca: CertificateAuthority,
  call: Call,
  context: HandlerContext,
): Promise<void> {
  const { clientCertificate, now } = call;
  const credentials = { headers: context.requestHeader, clientCertificate };
  const caller = await ca.authenticate(credentials, now);
  const { spiffeId, cluster, issuer, gateway } = caller;
  Object.assign(call.audit, { spiffeId, cluster, issuer, ...(gateway && { gateway }) });
  call.caller = caller;
}

async function createCertificate(
  ca: CertificateAuthority,
  call: Call,
  request: IstioCertificateRequest,
  signal: AbortSignal,
): Promise<{ certChain: string[] }> {
  if (!call.caller) throw new CaError({ reason: "credential-missing" }, "nobody authenticated");
  const { now, audit, caller } = call;
  const asked = toCertificateRequest(request);
  const certChain = await issueCertificate(ca.issuance, caller, asked, { now, signal, audit });
  delete audit.reason;
  return { certChain };
}

function toCertificateRequest(request: IstioCertificateRequest): CertificateRequest {
  const { ImpersonatedIdentity, CertSigner } = request.metadata ?? {};
  return {
    csrPem: request.csr,
    requestedSeconds: request.validityDuration,
    impersonatedIdentity: textOrEmpty(ImpersonatedIdentity),
    certSigner: textOrEmpty(CertSigner),
  };
}

/** As protobuf's GetStringValue: what is not text reads as empty. */
function textOrEmpty(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Does the work of a call, notes what goes wrong, and lets the caller know no more than it may. */
async function answering<T>(context: HandlerContext, work: (call: Call) => Promise<T>): Promise<T> {
  const call = context.values.get(callKey);
  if (!call) throw new Error("a call without its context");
  const { signal } = context;
  call.signal = signal;
  try {
    return await withPatience(work(call), {
      signal,
      milliseconds: maximumTimeout,
      giveUp: abandoned,
    });
  } catch (error) {
    auditFailure(call.audit, error);
    throw error instanceof CaError ? toConnectError(error.refusal) : error;
  }
}

function abandoned(): CaError {
  return new CaError({ reason: "request-abandoned" }, "the caller is gone, or out of time");
}

/** Complete before it leaves, so that the audit event of a call is written once its outcome is certain. */
async function octetsOf({ body }: UniversalServerResponse): Promise<Bytes> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body ?? []) chunks.push(chunk);
  return concatBytes(...chunks);
}

async function* once(octets: Bytes): AsyncGenerator<Bytes> {
  if (octets.length > 0) yield octets;
}

/** How the RPC layer itself refused a call: its code, without its sentence, which may quote the message. */
function refusalOf({ status, trailer }: UniversalServerResponse, octets: Bytes): string {
  const text = new TextDecoder().decode(octets);
  const code =
    /"code":"(\w+)"/.exec(text)?.[1] ??
    /grpc-status: ?(\d+)/.exec(text)?.[1] ??
    trailer?.get("grpc-status");
  return `refused by the RPC layer: HTTP ${status}${code ? `, code ${code}` : ""}`;
}
