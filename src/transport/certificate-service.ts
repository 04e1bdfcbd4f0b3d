import {
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
} from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerResponse } from "@connectrpc/connect/protocol";
import type { Caller } from "../authn/caller.ts";
import type { AuditEvent } from "../ca/audit-event.ts";
import { type CertificateRequest, issueCertificate } from "../ca/issue-certificate.ts";
import { CaError } from "../errors.ts";
import {
  type IstioCertificateRequest,
  IstioCertificateService,
} from "../gen/istio/v1/auth/ca_pb.ts";
import { concatBytes } from "../pki/bytes.ts";
import { auditFailure } from "./audit-failure.ts";
import type { CertificateAuthority } from "./certificate-authority.ts";
import { toConnectError } from "./connect-error.ts";
import { withPatience } from "./patience.ts";
import { maximumBodyOctets, requestBody } from "./request-body.ts";

/** What one call has established so far. */
interface Call {
  readonly now: Date;
  readonly audit: AuditEvent;
  caller?: Caller;
  /** Aborted when nobody waits for the answer any more; known once the call has begun. */
  signal?: AbortSignal;
}

const callKey = createContextKey<Call | undefined>(undefined);

/** Whatever deadline a client asks for, nothing takes longer than this, in milliseconds. */
const maximumTimeout = 30_000;

/**
 * Istio's `IstioCertificateService` over Connect and gRPC-Web.
 *
 * The caller is authenticated before a byte of the message is read. Every call leaves one audit
 * event, whatever becomes of it.
 *
 * @returns A handler of requests to the path of `CreateCertificate`.
 */
export function createCertificateService(
  ca: CertificateAuthority,
): (request: Request) => Promise<Response> {
  const handler = createHandler(ca);
  return async (request) => {
    const now = ca.clock();
    const audit: AuditEvent = {
      event: "create-certificate",
      outcome: "refused",
      reason: "rpc-malformed",
    };
    if (isNativeGrpc(request)) {
      ca.log.audit({ ...audit, detail: nativeGrpcSentence, durationMilliseconds: 0 });
      return nativeGrpcRefusal();
    }
    const call: Call = { now, audit };
    const response = await handler({
      httpVersion: "",
      method: request.method,
      url: request.url,
      header: request.headers,
      body: requestBody(request, () => call.signal),
      signal: request.signal,
      contextValues: createContextValues().set(callKey, call),
    });
    const body = await bodyOf(response);
    if (audit.reason === "rpc-malformed") audit.detail = refusalOf(response.status, body);
    const answer = toResponse(response, body);
    audit.durationMilliseconds = ca.clock().getTime() - now.getTime();
    ca.log.audit(audit);
    return answer;
  };
}

function createHandler(ca: CertificateAuthority): UniversalHandler {
  const router = createConnectRouter({
    // Without trailers, native gRPC could not say how a call ended (platform facts, §1).
    grpc: false,
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
  const caller = await ca.authenticate(context.requestHeader, call.now);
  const { spiffeId, cluster, issuer } = caller;
  Object.assign(call.audit, { spiffeId, cluster, issuer });
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

function isNativeGrpc(request: Request): boolean {
  return /^application\/grpc(?:$|[+;])/i.test(request.headers.get("content-type") ?? "");
}

const unimplemented = "12";
const nativeGrpcSentence =
  "native gRPC cannot be answered here: enable gRPC on the zone, or use Connect, gRPC-Web or a gateway";

function nativeGrpcRefusal(): Response {
  return new Response(`${nativeGrpcSentence}\n`, {
    status: 415,
    headers: { "grpc-status": unimplemented, "grpc-message": nativeGrpcSentence },
  });
}

/** Complete before it leaves, so that the audit event of a call is written once its outcome is certain. */
async function bodyOf({ body }: UniversalServerResponse): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body ?? []) chunks.push(chunk);
  return concatBytes(...chunks);
}

/** How the RPC layer itself refused a call: its code, without its sentence, which may quote the message. */
function refusalOf(status: number, body: Uint8Array): string {
  const text = new TextDecoder().decode(body);
  const code = /"code":"(\w+)"/.exec(text)?.[1] ?? /grpc-status: ?(\d+)/.exec(text)?.[1];
  return `refused by the RPC layer: HTTP ${status}${code ? `, code ${code}` : ""}`;
}

/**
 * gRPC-Web must remain a stream: with a Content-Length, Cloudflare's edge does not convert it to
 * gRPC (platform facts, §1).
 */
function toResponse(
  { status, header }: UniversalServerResponse,
  body: Uint8Array<ArrayBuffer>,
): Response {
  const isGrpcWeb = header?.get("content-type")?.startsWith("application/grpc-web") === true;
  return new Response(isGrpcWeb ? streamOf(body) : body, {
    status,
    ...(header && { headers: header }),
  });
}

function streamOf(body: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(body);
      controller.close();
    },
  });
}
