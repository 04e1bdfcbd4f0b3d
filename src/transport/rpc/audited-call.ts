import { Code } from "@connectrpc/connect";
import type { Caller } from "../../authn/caller.ts";
import type { AuditEvent } from "../../ca/audit-event.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import { clientCertificateKey } from "../client-certificate.ts";
import type { RpcRequest, RpcResponse, RpcService } from "./rpc.ts";
import { statusCodeOf } from "./status-code.ts";

/** One call, and its caller once that is known. */
export interface Call {
  readonly now: Date;
  readonly audit: AuditEvent;
  readonly clientCertificate: Bytes | undefined;
  caller?: Caller;
}

/** One way from the octets of a call to its answer. */
export type CallPath = (request: RpcRequest, call: Call) => Promise<RpcResponse>;

/** Makes a service of a path. Every call leaves one audit event, whatever becomes of the call. */
export function audited({ clock, log }: CertificateAuthority, path: CallPath): RpcService {
  return async (request) => {
    const now = clock();
    // A call that the RPC layer itself refuses leaves the event as it stands here.
    const audit: AuditEvent = {
      event: "create-certificate",
      outcome: "refused",
      reason: "rpc-malformed",
    };
    const clientCertificate = request.contextValues?.get(clientCertificateKey);
    const response = await path(request, { now, audit, clientCertificate });
    if (audit.reason === "rpc-malformed") audit.detail = refusalOf(response);
    audit.durationMilliseconds = clock().getTime() - now.getTime();
    log.audit(audit);
    return response;
  };
}

/** The refusal of the RPC layer, without its message, which may quote the caller's. */
function refusalOf(response: RpcResponse): string {
  const code = statusCodeOf(response);
  return `refused by the RPC layer: HTTP ${response.status}${code ? `, code ${Code[code]}` : ""}`;
}
