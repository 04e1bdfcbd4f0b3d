import { ConnectError } from "@connectrpc/connect";
import { CaError, messageOf } from "../../foundation/errors.ts";
import type { Level } from "../../foundation/event-log.ts";
import { UpstreamFault, UpstreamRefusal } from "./upstream.ts";

/**
 * How a call ended at a gateway. The CA answered it, or refused it, or gave no answer (`unavailable`), or
 * none before the caller's deadline (`abandoned`). Or the gateway turned it away (`rejected`), or failed.
 */
export type CallOutcome =
  | "answered"
  | "refused"
  | "unavailable"
  | "abandoned"
  | "rejected"
  | "failed";

/** The part of a gateway's log line that says what happened upstream. */
export interface CallEnding {
  readonly event: "forwarded" | "not-forwarded" | "upstream-unavailable";
  readonly level: Level;
  readonly outcome: CallOutcome;
  readonly detail: string;
  /** The HTTP status of the answer, of the CA or of what stands in front of it. */
  readonly upstreamStatus?: number | undefined;
}

export const answered: CallEnding = {
  event: "forwarded",
  level: "info",
  outcome: "answered",
  detail: "the CA answered the call",
  upstreamStatus: 200,
};

const longestDetail = 300;

/** @param isSent Whether the gateway had begun to send the call to the CA. */
export function endingOf(error: unknown, isSent: boolean): CallEnding {
  if (error instanceof UpstreamRefusal) {
    const detail = `the CA refused the call: ${error.rawMessage}`.slice(0, longestDetail);
    const { status: upstreamStatus } = error;
    return { event: "forwarded", level: "warning", outcome: "refused", detail, upstreamStatus };
  }
  const unavailable = { event: "upstream-unavailable", level: "warning" } as const;
  if (error instanceof UpstreamFault) {
    const { message: detail, status: upstreamStatus } = error;
    return { ...unavailable, outcome: "unavailable", detail, upstreamStatus };
  }
  const notForwarded = { event: "not-forwarded", level: "warning" } as const;
  if (error instanceof CaError) {
    return { ...notForwarded, outcome: "rejected", detail: error.message };
  }
  if (!(error instanceof ConnectError)) {
    return { ...notForwarded, level: "error", outcome: "failed", detail: messageOf(error) };
  }
  // Such a message may quote the caller's, so only its code is logged.
  return isSent
    ? {
        ...unavailable,
        outcome: "abandoned",
        detail: "the caller hung up, or its deadline passed, before the CA answered",
      }
    : {
        ...notForwarded,
        outcome: "rejected",
        detail:
          "the gateway turned the call away: no credential, or no message that it can forward",
      };
}
