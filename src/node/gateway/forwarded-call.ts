import { Code, ConnectError } from "@connectrpc/connect";
import type { Registry } from "prom-client";
import { parseClientCertificate } from "../../authn/client-certificate.ts";
import { forwardingHeaders, forwardsHeader } from "../../authn/forwarded-certificate.ts";
import type { EventLog } from "../../ca/issuance/audit-event.ts";
import { addressOf } from "../../foundation/addresses.ts";
import { CaError, messageOf, rejectCredential } from "../../foundation/errors.ts";
import type { Level } from "../../foundation/events.ts";
import { traceFields, traceHeaders, traceOf } from "../../foundation/headers.ts";
import { toPem } from "../../pki/encoding/pem.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { addCounter } from "../../program/metrics.ts";
import { requestIdHeader, requestIdOf } from "../../transport/rpc/audited-call.ts";
import { toConnectError, unavailableError } from "../../transport/rpc/connect-error.ts";
import { forwardedPeerHeader, gatewayHeader, type Peer } from "../../transport/rpc/rpc.ts";
import type { UnaryCall } from "../../transport/rpc/unary-call.ts";
import { Shares } from "../limits/shares.ts";
import { Turn } from "../limits/turn.ts";
import {
  type GatewayCredentials,
  type OwnAuthorization,
  type Upstream,
  type UpstreamCall,
  UpstreamFault,
  UpstreamRefusal,
} from "./upstream.ts";

export interface Forwarding {
  readonly upstream: Upstream;
  readonly slowCalls: SlowCalls;
  readonly credentials: GatewayCredentials;
  /** The same, a few seconds old: it says at each call that a gateway calls. */
  readonly ownAuthorization: OwnAuthorization;
  readonly trustDomain: TrustDomain;
  readonly log: EventLog;
  readonly clock: () => Date;
  readonly ended: (outcome: CallOutcome) => void;
}

/** A call, and its caller as TLS has authenticated it. */
export interface ForwardedCall extends Omit<UnaryCall, "deadline"> {
  readonly peer: Peer;
  /** Whether the message has the caller's credential, and none of its headers counts. */
  readonly isProvedByMessage?: boolean;
}

/** How the gateway hands a body to the CA. */
export type Send<Answer> = (message: Uint8Array, call: UpstreamCall) => Promise<Answer>;

/** @throws ConnectError what the caller gets. */
export async function forward<Answer>(
  forwarding: Forwarding,
  call: ForwardedCall,
  send: Send<Answer>,
): Promise<Answer> {
  const { slowCalls, log, clock, ended } = forwarding;
  const begun = clock();
  const trace = traceOf(call.header);
  const requestId = requestIdOf(call.header, trace);
  const ids = { requestId, ...traceFields(trace), peer: call.peer.address };
  const report = ({ outcome, ...ending }: CallEnding, code: string): void => {
    const durationMilliseconds = clock().getTime() - begun.getTime();
    log.operation({ ...ending, outcome, ...ids, code, durationMilliseconds });
    ended(outcome);
  };
  let isSent = false;
  try {
    const credential = await headersFor(forwarding, call);
    const headers = { ...credential, ...traceHeaders(trace), [requestIdHeader]: requestId };
    const { timeoutMs } = call;
    const message = await call.message();
    isSent = true;
    const answer = await slowCalls.wait(call.peer.address, call.signal, (signal) =>
      send(message, { headers, signal, timeoutMs }),
    );
    report(answered, "ok");
    return answer;
  } catch (error) {
    const answer = toCallersError(error, begun);
    report(endingOf(error, isSent), Code[answer.code]);
    throw answer;
  }
}

/**
 * The headers that prove who calls. For a client certificate they are the gateway's own credential and
 * the certificate; otherwise they are the caller's token. A caller's own `x-forwarded-client-cert` is dropped.
 */
async function headersFor(
  { credentials, ownAuthorization, trustDomain, clock }: Forwarding,
  { header, peer: { clientCertificate, address }, isProvedByMessage = false }: ForwardedCall,
): Promise<Record<string, string>> {
  // The CA would take the token of a gateway before this one for the caller's own.
  if (header.get(forwardsHeader) !== null)
    throw rejectCredential("form", "another gateway has forwarded it, and one hop counts");
  const { authorization: gateway } = await ownAuthorization();
  const door = {
    ...(gateway !== undefined && { [gatewayHeader]: gateway }),
    ...(address !== undefined && { [forwardedPeerHeader]: address }),
  };
  const clusterid = header.get("clusterid");
  const cluster = clusterid !== null && { clusterid };
  if (isProvedByMessage) return { ...door, ...cluster };
  if (clientCertificate) {
    // A connection may outlive the certificate that opened it.
    const { spiffeId } = parseClientCertificate(clientCertificate, trustDomain, clock());
    const client = forwardingHeaders(toPem("CERTIFICATE", clientCertificate), spiffeId);
    return { ...(await credentials()), ...door, ...client };
  }
  const authorization = header.get("authorization");
  if (authorization !== null) return { authorization, ...door, ...cluster };
  throw new ConnectError("request authentication failed", Code.Unauthenticated);
}

/** Without an answer of the CA the caller gets `Unavailable`, because a retry may succeed. */
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

/** The part of a gateway's log line that says what happened upstream. */
interface CallEnding {
  readonly event: "forwarded" | "not-forwarded" | "upstream-unavailable";
  readonly level: Level;
  readonly outcome: CallOutcome;
  readonly detail: string;
  /** The HTTP status of the answer, of the CA or of what stands in front of it. */
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

export function countForwardedCalls(registry: Registry): (outcome: CallOutcome) => void {
  const calls = addCounter(
    registry,
    "rampart_gateway_calls_total",
    "Calls by what happened upstream: answered, refused, unavailable, abandoned, rejected, failed.",
    "outcome",
  );
  return (outcome) => calls.inc({ outcome });
}

interface SlowCall {
  readonly address: string;
  readonly end: () => void;
}

/** Milliseconds, far more than the CA needs: by turns, few calls have to share the connections to it. */
const usualPatience = 1_000;

/** Connections to the CA are left for these beside those of calls with a turn. */
const usualMaximum = 96;

/**
 * The calls for which the CA waits itself, such as for an issuer that never answers. They pass their turns on,
 * within a bound: beyond it the oldest of the address with most ends, in the network with most.
 */
export class SlowCalls {
  readonly #patience: number;
  readonly #maximum: number;
  readonly #shares = new Shares<SlowCall, "calls">({ calls: 0 });

  constructor(patienceMilliseconds: number = usualPatience, maximum: number = usualMaximum) {
    this.#patience = patienceMilliseconds;
    this.#maximum = maximum;
  }

  /**
   * @param answer Gets a signal that aborts with the call's own, and where the call has to end for another.
   * @throws UpstreamFault for a call that has to end for another.
   */
  async wait<Answer>(
    peer: string | undefined,
    signal: AbortSignal,
    answer: (ending: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    const ending = new AbortController();
    // `AbortSignal.any` keeps both signals in lists of weak references, which costs far more.
    const gone = (): void => ending.abort(signal.reason);
    if (signal.aborted) gone();
    signal.addEventListener("abort", gone);
    const fault = (): Error => new UpstreamFault("the CA is slow, and too many wait for it");
    const call = { address: addressOf(peer), end: () => ending.abort(fault()) };
    try {
      const passed = (): void => this.#take(call);
      return await Turn.aside(() => answer(ending.signal), { after: this.#patience, passed });
    } finally {
      this.#shares.remove(call, "calls");
    }
  }

  #take(call: SlowCall): void {
    this.#shares.add(call, "calls");
    if (this.#shares.inAll("calls") <= this.#maximum) return;
    const oldest = this.#shares.oldestOfLargest("calls");
    if (!oldest) return;
    this.#shares.remove(oldest, "calls");
    oldest.end();
  }
}
