import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { messageOf, OperatorError } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import {
  parseRetryAfter,
  retryAfterHeader,
  type TraceContext,
  traceFields,
  traceHeaders,
} from "../../foundation/headers.ts";
import { type Backoff, backoffMilliseconds } from "../../foundation/pause.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { createCertificateRequest } from "../../program/certificate-request.ts";
import { readTokenFileIfAny } from "../../program/files/small-file.ts";
import { callFault } from "../../program/tls-policy.ts";
import type { RequestSettings } from "../configuration/ca-settings.ts";
import type { CaChannel } from "./ca-channel.ts";
import { type CaAnswer, generateSubjectKey, IssuanceError, parseAnswer } from "./x509-svid.ts";

interface CaClientPorts {
  readonly channel: Pick<CaChannel, "transport" | "reset">;
  readonly random: () => number;
  readonly log: OperationLog;
}

interface CaCall<Answer> {
  readonly send: (transport: Transport, options: CallOptions) => Promise<Answer>;
  readonly signal: AbortSignal;
  /** All attempts carry it. */
  readonly trace: TraceContext;
  /** Called after each failed attempt that is followed by another, with a log whose lines carry the trace. */
  readonly onRetry?: (error: ConnectError, log: OperationLog) => void;
}

/** What an attempt sends beside its message. The headers prove who calls. */
interface CallOptions {
  readonly headers: Headers;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/**
 * Calls the CA as pilot-agent or a node proxy does. A call is tried five times, but only once while the last call has
 * failed: in an outage a whole mesh would else make five times the calls, and find no sooner that it is over.
 */
export class CaClient {
  readonly #settings: RequestSettings;
  readonly #ports: CaClientPorts;
  #hasFailed = false;

  constructor(settings: RequestSettings, ports: CaClientPorts) {
    this.#settings = settings;
    this.#ports = ports;
  }

  /** @throws IssuanceError */
  async call<Answer>({ send, signal, trace, onRetry }: CaCall<Answer>): Promise<Answer> {
    const { channel, random } = this.#ports;
    const log = tracedLog(this.#ports.log, trace);
    const timeoutMs = this.#settings.attemptTimeoutMilliseconds;
    const attempt = async (retries: number): Promise<Answer> => {
      const headers = await requestHeaders(this.#settings, retries, log);
      for (const [name, value] of Object.entries(traceHeaders(trace))) headers.set(name, value);
      return await send(await channel.transport(), { headers, signal, timeoutMs });
    };
    const attempts = this.#hasFailed ? 1 : maximumAttempts;
    const retrying = (error: ConnectError): void => onRetry?.(error, log);
    try {
      const answer = await callWithRetry(attempt, { attempts, signal, random, onRetry: retrying });
      this.#hasFailed = false;
      return answer;
    } catch (error) {
      this.#hasFailed ||= error instanceof ConnectError && !signal.aborted;
      channel.reset();
      throw toIssuanceError(error);
    }
  }
}

function tracedLog(log: OperationLog, trace: TraceContext): OperationLog {
  return { operation: (event) => log.operation({ ...event, ...traceFields(trace) }) };
}

async function requestHeaders(
  { tokenFile, clusterId, headers }: RequestSettings,
  retries: number,
  log: OperationLog,
): Promise<Headers> {
  const allHeaders = new Headers(headers);
  const token = await readTokenFileIfAny(tokenFile).catch(tokenUnusable);
  if (token !== undefined) allHeaders.set("authorization", `Bearer ${token}`);
  else log.operation({ event: "token-missing", level: "warning", file: tokenFile });
  if (clusterId !== "") allHeaders.set("clusterid", clusterId);
  if (retries > 0) allHeaders.set("x-retry-attempt", String(retries));
  return allHeaders;
}

function tokenUnusable(error: unknown): never {
  throw new IssuanceError("token-unusable", messageOf(error), error);
}

const refusals: ReadonlySet<Code> = new Set([
  Code.Unauthenticated,
  Code.PermissionDenied,
  Code.InvalidArgument,
  Code.Unimplemented,
]);

function toIssuanceError(error: unknown): unknown {
  if (error instanceof ConnectError === false) return error;
  // Connect wraps what the agent itself throws within a call.
  if (error.cause instanceof IssuanceError) return error.cause;
  if (error.cause instanceof OperatorError) {
    return new IssuanceError("authority-unreachable", error.cause.message, error);
  }
  const fault = refusals.has(error.code) ? "authority-refused" : "authority-unreachable";
  const detail = `the CA answered ${callFault(error)}`;
  return new IssuanceError(fault, detail, error, secondsToWait(error));
}

export const maximumAttempts = 5;

const backoff: Backoff = {
  firstMilliseconds: 100,
  longestMilliseconds: 800,
  spread: [0.9, 1.1],
};

export function pauseMilliseconds(attempts: number, random: number): number {
  return backoffMilliseconds(backoff, attempts, random);
}

/** Codes after which the same call may succeed (istio pkg/security/retry.go). */
const retryable: ReadonlySet<Code> = new Set([
  Code.Canceled,
  Code.DeadlineExceeded,
  Code.ResourceExhausted,
  Code.Aborted,
  Code.Internal,
  Code.Unavailable,
]);

/**
 * The seconds for which a CA asks not to be called, or 0. A refusal that no retry can turn into a
 * certificate asks for nothing.
 */
function secondsToWait({ code, metadata }: ConnectError): number {
  if (!retryable.has(code)) return 0;
  return parseRetryAfter(metadata.get(retryAfterHeader)) ?? 0;
}

interface RetryOptions {
  /** At least 1, at most {@link maximumAttempts}. */
  readonly attempts: number;
  readonly signal: AbortSignal;
  /** At least 0 and less than 1. */
  readonly random: () => number;
  /** Called after each failed attempt that is followed by another. */
  readonly onRetry: (error: ConnectError) => void;
}

/**
 * Makes so many attempts, up to the five of pilot-agent. The waits between them are 100, 200, 400 and 800 ms,
 * each up to a tenth longer or shorter. Only a retryable code leads to another attempt, and none does where
 * the CA asks for a wait, which is longer than these.
 *
 * @param call Gets the number of earlier attempts.
 * @throws ConnectError The error of the last attempt.
 */
async function callWithRetry<T>(
  call: (retries: number) => Promise<T>,
  { attempts, signal, random, onRetry }: RetryOptions,
): Promise<T> {
  for (let retries = 0; ; retries++) {
    try {
      return await call(retries);
    } catch (error) {
      const failure = ConnectError.from(error);
      const mayRetry = retryable.has(failure.code) && secondsToWait(failure) === 0;
      const isLast = retries + 1 >= attempts || !mayRetry;
      if (isLast || signal.aborted) throw failure;
      onRetry(failure);
    }
    await sleep(pauseMilliseconds(retries + 1, random()), undefined, { signal });
  }
}

/**
 * Requests a certificate for a new key. All attempts carry the trace of the call.
 *
 * @throws IssuanceError
 */
export type Issue = (
  spiffeId: SpiffeId,
  signal: AbortSignal,
  trace: TraceContext,
) => Promise<CaAnswer>;

/** The counters of the CA client, with pilot-agent's meanings. */
export interface IssuanceMetrics {
  /** Requests a certificate, with all attempts, and counts it once, with its failure and its duration. */
  timed<T>(request: () => Promise<T>): Promise<T>;
  /** Counts an attempt after the first. */
  retried(): void;
}

interface IssuePorts {
  readonly ca: CaClient;
  readonly clock: () => Date;
  readonly metrics: IssuanceMetrics;
}

/** Concurrent requests to the CA. A node proxy that starts must leave capacity for others. */
const maximumRequests = 8;

/** A client of CreateCertificate. Its requests are those of pilot-agent or of a node proxy. */
export function issueThrough(
  { key, purpose, lifetimeSeconds, impersonates, certSigner }: RequestSettings,
  { ca, clock, metrics }: IssuePorts,
): Issue {
  const requests = new Semaphore(maximumRequests);
  const issue: Issue = async (spiffeId, signal, trace) => {
    const { privateKey, publicKey } = await generateSubjectKey(key);
    const request = {
      csr: await createCertificateRequest({ privateKey, publicKey }, spiffeId),
      validityDuration: BigInt(lifetimeSeconds),
      metadata: impersonates ? { ImpersonatedIdentity: spiffeId } : { CertSigner: certSigner },
    };
    const onRetry = (error: ConnectError, log: OperationLog): void => {
      const [code, detail] = [Code[error.code], callFault(error)];
      metrics.retried();
      log.operation({ event: "csr-retried", level: "warning", spiffeId, code, detail });
    };
    return await metrics.timed(async () => {
      const { certChain } = await ca.call({
        send: (transport, options) =>
          createClient(IstioCertificateService, transport).createCertificate(request, options),
        signal,
        trace,
        onRetry,
      });
      return parseAnswer(certChain, { spiffeId, privateKey }, clock(), purpose);
    });
  };
  return (...request) => requests.run(() => issue(...request));
}
