import { Code, ConnectError } from "@connectrpc/connect";
import type { Caller } from "../../../authn/caller.ts";
import type { AuditEvent } from "../../../ca/issuance/audit-event.ts";
import { CaError, messageOf } from "../../../foundation/errors.ts";
import type { HeaderFields } from "../../../foundation/headers.ts";
import type { Refusal } from "../../../foundation/refusal.ts";
import { RequestId, TraceContext } from "../../../foundation/trace-context.ts";
import type { CertificateAuthority } from "../../certificate-authority.ts";
import { Peer, type RpcRequest, type RpcResponse, type RpcService } from "../rpc.ts";
import { statusCodeOf } from "../status-code.ts";

/** One call, and its caller once it is authenticated. */
export interface Call {
  readonly now: Date;
  readonly audit: AuditEvent;
  readonly peer: Peer;
  caller?: Caller;
}

/** One way from the octets of a call to its answer. It must not reject. */
export type CallPath = (request: RpcRequest, call: Call) => Promise<RpcResponse>;

/** Makes a service of a path. Every call that the path answers leaves one audit event, also a refused one. */
export function audited(
  { clock, log }: CertificateAuthority,
  path: CallPath,
  event?: AuditEvent["event"],
): RpcService {
  return async (request) => {
    const now = clock();
    const peer = request.contextValues?.get(Peer.key) ?? {};
    const audit = newAudit(request.header, peer, event);
    const response = await path(request, { now, audit, peer });
    if (audit.reason === "rpc-malformed") audit.detail = refusalOf(response);
    audit.durationMilliseconds = clock().getTime() - now.getTime();
    log.audit(audit);
    return response;
  };
}

/** Creates the audit event of a call. Its initial reason is that of a call which the RPC layer refuses. */
export function newAudit(
  headers: HeaderFields,
  { address }: Peer,
  event: AuditEvent["event"] = "create-certificate",
): AuditEvent {
  const trace = TraceContext.of(headers);
  return {
    event,
    outcome: "refused",
    reason: "rpc-malformed",
    requestId: RequestId.of(headers, trace),
    ...TraceContext.logFields(trace),
    ...(address !== undefined && { peer: address }),
  };
}

/** The refusal of the RPC layer, without its message, which may quote the caller's. */
function refusalOf(response: RpcResponse): string {
  const code = statusCodeOf(response);
  return `refused by the RPC layer: HTTP ${response.status}${code ? `, code ${Code[code]}` : ""}`;
}

const maximumDetailLength = 300;

/** Records why a call failed, which its caller never learns exactly. A ConnectError changes the detail alone. */
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
