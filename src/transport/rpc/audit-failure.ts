import { ConnectError } from "@connectrpc/connect";
import type { AuditEvent } from "../../ca/issuance/audit-event.ts";
import { CaError, messageOf, type Refusal } from "../../foundation/errors.ts";

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
    default:
      return undefined;
  }
}
