import { Code, ConnectError } from "@connectrpc/connect";
import { codeFromHttpStatus, codeFromString } from "@connectrpc/connect/protocol-connect";
import type { Caller } from "../../authn/caller.ts";
import type { AuditEvent } from "../../ca/issuance/audit-event.ts";
import { CaError, messageOf, type Refusal } from "../../foundation/errors.ts";
import {
  type HeaderFields,
  type TraceContext,
  traceFields,
  traceOf,
} from "../../foundation/headers.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import { frameHeadOctets, trailersFlag } from "./grpc-frames.ts";
import { type Peer, peerKey, type RpcRequest, type RpcResponse, type RpcService } from "./rpc.ts";

/** One call, and its caller once that is known. */
export interface Call {
  readonly now: Date;
  readonly audit: AuditEvent;
  readonly peer: Peer;
  caller?: Caller;
}

/** One way from the octets of a call to its answer. */
export type CallPath = (request: RpcRequest, call: Call) => Promise<RpcResponse>;

/** Makes a service of a path. Every call leaves one audit event, whatever becomes of the call. */
export function audited(
  { clock, log }: CertificateAuthority,
  path: CallPath,
  event?: AuditEvent["event"],
): RpcService {
  return async (request) => {
    const now = clock();
    const peer = request.contextValues?.get(peerKey) ?? {};
    const audit = newAudit(request.header, peer, event);
    const response = await path(request, { now, audit, peer });
    if (audit.reason === "rpc-malformed") audit.detail = refusalOf(response);
    audit.durationMilliseconds = clock().getTime() - now.getTime();
    log.audit(audit);
    return response;
  };
}

/** The audit event of a call as it begins. A call that the RPC layer itself refuses leaves it so. */
export function newAudit(
  headers: HeaderFields,
  { address }: Peer,
  event: AuditEvent["event"] = "create-certificate",
): AuditEvent {
  const trace = traceOf(headers);
  return {
    event,
    outcome: "refused",
    reason: "rpc-malformed",
    requestId: requestIdOf(headers, trace),
    ...traceFields(trace),
    ...(address !== undefined && { peer: address }),
  };
}

/** The refusal of the RPC layer, without its message, which may quote the caller's. */
function refusalOf(response: RpcResponse): string {
  const code = statusCodeOf(response);
  return `refused by the RPC layer: HTTP ${response.status}${code ? `, code ${Code[code]}` : ""}`;
}

const maximumDetailLength = 300;

/** Records in the audit event why a call failed. The caller never learns this exact reason. */
export function auditFailure(audit: AuditEvent, error: unknown): void {
  if (error instanceof CaError) {
    audit.outcome = "refused";
    audit.reason = error.refusal.reason;
    const check = checkOf(error.refusal);
    if (check) audit.check = check;
  } else if (!(error instanceof ConnectError)) {
    audit.outcome = "failed";
    audit.reason = "fault";
  }
  audit.detail = messageOf(error).slice(0, maximumDetailLength);
}

function checkOf(refusal: Refusal): string | undefined {
  switch (refusal.reason) {
    case "credential-rejected":
      return refusal.check;
    case "subject-key-unacceptable":
      return refusal.fault;
    case "impersonation-denied":
      return refusal.rule;
    case "quota-exceeded":
      return refusal.quota;
    case "denied":
      return refusal.subject;
    case "audience-denied":
    case "policy-denied":
      return refusal.rule;
    default:
      return undefined;
  }
}

export const requestIdHeader = "x-request-id";

/** As Envoy and most proxies write it. It is too short for a token, which must not reach the log. */
const requestIdForm = /^[A-Za-z0-9._:-]{1,64}$/;

/**
 * The id by which the logs of several programs speak of one call: that of `x-request-id`, or else the trace
 * id. Callers choose it, so it proves nothing.
 */
export function requestIdOf(headers: HeaderFields, { traceId }: TraceContext): string {
  const given = headers.get(requestIdHeader);
  return given !== null && requestIdForm.test(given) ? given : traceId;
}

/** The status code of an answer, from wherever its protocol puts it; `undefined` for success. */
export function statusCodeOf(response: RpcResponse): Code | undefined {
  const { status, header, trailer, octets } = response;
  const grpcStatus =
    trailer?.["grpc-status"] ?? header["grpc-status"] ?? statusInTrailerFrame(response);
  if (grpcStatus !== undefined) return grpcStatus === "0" ? undefined : knownCode(grpcStatus);
  if (status === 200) return undefined;
  const [, name = ""] = /"code":"(\w+)"/.exec(new TextDecoder().decode(octets)) ?? [];
  return codeFromString(name) ?? codeFromHttpStatus(status);
}

function knownCode(text: string): Code {
  const code = Number(text);
  return Code[code] === undefined ? Code.Unknown : code;
}

/** gRPC-Web puts the trailers into the last frame of the body. */
function statusInTrailerFrame({ header, octets }: RpcResponse): string | undefined {
  if (!header["content-type"]?.startsWith("application/grpc-web")) return undefined;
  const view = new DataView(octets.buffer, octets.byteOffset, octets.length);
  for (let at = 0; at + frameHeadOctets <= octets.length; ) {
    const end = at + frameHeadOctets + view.getUint32(at + 1);
    if (view.getUint8(at) & trailersFlag) {
      const text = new TextDecoder().decode(octets.subarray(at + frameHeadOctets, end));
      return /^grpc-status: ?(\d+)/m.exec(text)?.[1];
    }
    at = end;
  }
  return undefined;
}
