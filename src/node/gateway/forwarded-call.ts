import { Code, ConnectError } from "@connectrpc/connect";
import type { Registry } from "prom-client";
import { parseClientCertificate } from "../../authn/client-certificate.ts";
import { ForwardingHeaders } from "../../authn/forwarding-headers.ts";
import type { EventLog } from "../../ca/issuance/event-log.ts";
import { CaError, messageOf, OperatorError, rejectCredential } from "../../foundation/errors.ts";
import type { OperationalEvent } from "../../foundation/events.ts";
import { RequestId, TraceContext } from "../../foundation/trace-context.ts";
import { Pem } from "../../pki/encoding/pem.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { Metrics } from "../../program/metrics.ts";
import { toConnectError, unavailableError } from "../../transport/rpc/connect-error.ts";
import type { UnaryCall } from "../../transport/rpc/fast-path.ts";
import { Peer } from "../../transport/rpc/rpc.ts";
import type { SlowCalls } from "./slow-calls.ts";
import {
  type GatewayCredentials,
  type OwnAuthorization,
  type Upstream,
  type UpstreamCall,
  UpstreamFault,
  UpstreamRefusal,
} from "./upstream.ts";

/** What the gateway needs to forward a call. */
export interface Forwarding {
  readonly upstream: Upstream;
  readonly slowCalls: SlowCalls;
  readonly credentials: GatewayCredentials;
  /** The `authorization` in `credentials`, up to a few seconds old. By it the CA sees at each call that a gateway calls. */
  readonly ownAuthorization: OwnAuthorization;
  readonly trustDomain: TrustDomain;
  readonly log: EventLog;
  readonly clock: () => Date;
  readonly ended: (outcome: CallOutcome) => void;
}

/** A call, and its caller as TLS has authenticated it. */
export interface ForwardedCall extends Omit<UnaryCall, "deadline" | "message"> {
  readonly peer: Peer;
  /** Whether the message has the caller's credential, so that credentials in headers are ignored. */
  readonly isProvedByMessage?: boolean;
}

/** Sends a body to the CA. */
export type Send<Answer> = (message: Uint8Array, call: UpstreamCall) => Promise<Answer>;

/** Sends the message of an admitted call to the CA, once it has arrived. @throws ConnectError for the caller. */
export type Sending = <Answer>(
  message: () => Promise<Uint8Array>,
  send: Send<Answer>,
) => Promise<Answer>;

/**
 * Forwards a call once its caller is admitted.
 * @throws ConnectError with the code and sentence for the caller.
 */
export async function forward<Answer>(
  forwarding: Forwarding,
  call: ForwardedCall & Pick<UnaryCall, "message">,
  send: Send<Answer>,
): Promise<Answer> {
  const sending = await admit(forwarding, call);
  return sending(call.message, send);
}

/**
 * Finds the credential of a call, before its message is read.
 * @returns What sends the message.
 *
 * @throws ConnectError that the caller gets.
 */
export async function admit(forwarding: Forwarding, call: ForwardedCall): Promise<Sending> {
  const { slowCalls, log, clock, ended } = forwarding;
  const begun = clock();
  const trace = TraceContext.of(call.header);
  const requestId = RequestId.of(call.header, trace);
  const ids = { requestId, ...TraceContext.logFields(trace), peer: call.peer.address };
  const report = ({ outcome, ...ending }: CallEnding, code: string): void => {
    const durationMilliseconds = clock().getTime() - begun.getTime();
    log.operation({ ...ending, outcome, ...ids, code, durationMilliseconds });
    ended(outcome);
  };
  let isSent = false;
  const failed = (error: unknown): ConnectError => {
    const answer = toCallersError(error, begun);
    report(endingOf(error, isSent), Code[answer.code]);
    return answer;
  };
  const [first, second] = await credentialsFor(forwarding, call).catch((error) => {
    throw failed(error);
  });
  const callBy = (credential: Credential, signal: AbortSignal): UpstreamCall => {
    const headers = {
      ...credential,
      ...TraceContext.headers(trace),
      [RequestId.header]: requestId,
    };
    return { headers, signal, timeoutMs: call.timeoutMs };
  };
  return async (message, send) => {
    try {
      const octets = await message();
      isSent = true;
      const answer = await slowCalls.wait(call.peer.address, call.signal, (signal) =>
        send(octets, callBy(first, signal)).catch((error: unknown) => {
          if (second && isUnauthenticated(error)) return send(octets, callBy(second, signal));
          throw error;
        }),
      );
      report(answered, "ok");
      return answer;
    } catch (error) {
      throw failed(error);
    }
  };
}

/** The headers that prove who calls. */
type Credential = Readonly<Record<string, string>>;

const isUnauthenticated = (error: unknown): boolean =>
  error instanceof UpstreamRefusal && error.code === Code.Unauthenticated;

/**
 * The caller's credentials, in the order in which the CA tries them: the certificate with the gateway's own credential,
 * if it can be forwarded, then the token. A caller's own `x-forwarded-client-cert` is dropped.
 */
async function credentialsFor(
  { credentials, ownAuthorization, trustDomain, clock }: Forwarding,
  { header, peer: { clientCertificate, address }, isProvedByMessage = false }: ForwardedCall,
): Promise<readonly [Credential, (Credential | undefined)?]> {
  // The CA would mistake the token of a gateway before this one for the caller's own.
  if (header.get(ForwardingHeaders.forwards) !== null)
    throw rejectCredential("form", "another gateway has forwarded it, and one hop counts");
  const { authorization: gateway } = await ownAuthorization();
  const door = {
    ...(gateway !== undefined && { [Peer.gatewayHeader]: gateway }),
    ...(address !== undefined && { [Peer.forwardedHeader]: address }),
  };
  const clusterid = header.get("clusterid");
  const cluster = clusterid !== null && { clusterid };
  if (isProvedByMessage) return [{ ...door, ...cluster }];
  const authorization = header.get("authorization");
  const byToken = authorization === null ? undefined : { authorization, ...door, ...cluster };
  if (!clientCertificate) {
    if (byToken) return [byToken];
    throw new ConnectError("request authentication failed", Code.Unauthenticated);
  }
  try {
    // A connection may outlive the certificate that opened it.
    const { spiffeId } = parseClientCertificate(clientCertificate, trustDomain, clock());
    const client = ForwardingHeaders.of(Pem.format("CERTIFICATE", clientCertificate), spiffeId);
    return [{ ...(await credentials()), ...door, ...client }, byToken];
  } catch (error) {
    const isOfCertificate = error instanceof CaError || error instanceof OperatorError;
    if (byToken && isOfCertificate) return [byToken];
    throw error;
  }
}

/** The error for the caller. Without an answer of the CA it is `Unavailable`, because a retry may succeed. */
function toCallersError(error: unknown, now: Date): ConnectError {
  if (error instanceof ConnectError) return error;
  if (error instanceof CaError) return toConnectError(error.refusal, now);
  return unavailableError(now);
}

/**
 * How a call ended at a gateway. The CA answered it, or refused it, or gave no answer (`unavailable`), or
 * none before the caller's deadline (`abandoned`). Or the gateway turned it away (`rejected`), or failed.
 */
type CallOutcome = "answered" | "refused" | "unavailable" | "abandoned" | "rejected" | "failed";

/** The part of a gateway's log line about what happened upstream. */
interface CallEnding {
  readonly event: "forwarded" | "not-forwarded" | "upstream-unavailable";
  readonly level: OperationalEvent["level"];
  readonly outcome: CallOutcome;
  readonly detail: string;
  /** The HTTP status of the CA, or of a proxy in front of it. */
  readonly upstreamStatus?: number | undefined;
}

const answered: CallEnding = {
  event: "forwarded",
  level: "info",
  outcome: "answered",
  detail: "the CA answered the call",
  upstreamStatus: 200,
};

const longestDetail = 300;

/** @param isSent Whether the gateway had begun to send the call to the CA. */
function endingOf(error: unknown, isSent: boolean): CallEnding {
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
  // The error's message may quote the caller's, so only its code is logged.
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

/** Registers the metric of forwarded calls. @returns The function that counts one. */
export function countForwardedCalls(registry: Registry): (outcome: CallOutcome) => void {
  const calls = Metrics.addCounter(
    registry,
    "rampart_gateway_calls_total",
    "Calls by what happened upstream: answered, refused, unavailable, abandoned, rejected, failed.",
    "outcome",
  );
  return (outcome) => calls.inc({ outcome });
}
