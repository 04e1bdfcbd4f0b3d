import { Code } from "@connectrpc/connect";
import type { Caller } from "../../authn/caller.ts";
import type { AuditEvent } from "../../ca/issuance/audit-event.ts";
import type { HeaderFields } from "../../foundation/headers.ts";
import { traceFields, traceOf } from "../../foundation/trace-context.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import { type Peer, peerKey } from "../peer.ts";
import { requestIdOf } from "./request-id.ts";
import type { RpcRequest, RpcResponse, RpcService } from "./rpc.ts";
import { statusCodeOf } from "./status-code.ts";

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
export function audited({ clock, log }: CertificateAuthority, path: CallPath): RpcService {
  return async (request) => {
    const now = clock();
    const peer = request.contextValues?.get(peerKey) ?? {};
    const audit = newAudit(request.header, peer);
    const response = await path(request, { now, audit, peer });
    if (audit.reason === "rpc-malformed") audit.detail = refusalOf(response);
    audit.durationMilliseconds = clock().getTime() - now.getTime();
    log.audit(audit);
    return response;
  };
}

/** The audit event of a call as it begins. A call that the RPC layer itself refuses leaves it so. */
export function newAudit(headers: HeaderFields, { address }: Peer): AuditEvent {
  const trace = traceOf(headers);
  return {
    event: "create-certificate",
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
