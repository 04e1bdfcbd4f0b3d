import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { messageOf, OperatorError } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { parseRetryAfter, retryAfterHeader } from "../../foundation/headers.ts";
import { type Backoff, backoffMilliseconds } from "../../foundation/pause.ts";
import { type TraceContext, traceFields, traceHeaders } from "../../foundation/trace-context.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { createCertificateRequest } from "../../program/certificate-request.ts";
import { readTokenFileIfAny } from "../../program/files/small-file.ts";
import type { RequestSettings } from "../configuration/ca-settings.ts";
import type { CaChannel } from "./ca-channel.ts";
import { type CaAnswer, generateSubjectKey, IssuanceError, parseAnswer } from "./x509-svid.ts";

/** {@link CertificateClient.issue} */
export type Issue = CertificateClient["issue"];

/** The counters of the CA client, with pilot-agent's meanings. */
export interface IssuanceMetrics {
  /** Requests a certificate, with all attempts, and counts it once, with its failure and its duration. */
  timed<T>(request: () => Promise<T>): Promise<T>;
  /** Counts an attempt after the first. */
  retried(): void;
}

/** The dependencies of the client. */
interface CertificateClientPorts {
  readonly channel: CaChannel;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: OperationLog;
  readonly metrics: IssuanceMetrics;
}

/**
 * A client of CreateCertificate. Its requests are those of pilot-agent or of a node proxy. A call is
 * tried five times, but only once while the last call has failed: in an outage a whole mesh would else make
 * five times the calls, and find no sooner that it is over.
 */
export class CertificateClient {
  readonly #settings: RequestSettings;
  readonly #ports: CertificateClientPorts;
  #hasFailed = false;

  constructor(settings: RequestSettings, ports: CertificateClientPorts) {
    this.#settings = settings;
    this.#ports = ports;
  }

  /** Requests a certificate for a new key. All attempts carry the trace of the call. @throws IssuanceError */
  async issue(spiffeId: SpiffeId, signal: AbortSignal, trace: TraceContext): Promise<CaAnswer> {
    const { metrics, channel, clock } = this.#ports;
    const { key, purpose } = this.#settings;
    const subjectKey = await generateSubjectKey(key);
    const csr = await createCertificateRequest(subjectKey, spiffeId);
    const requested = { spiffeId, privateKey: subjectKey.privateKey };
    try {
      return await metrics.timed(async () =>
        parseAnswer(await this.#call(csr, spiffeId, signal, trace), requested, clock(), purpose),
      );
    } catch (error) {
      this.#hasFailed ||= error instanceof ConnectError && !signal.aborted;
      channel.reset();
      throw toIssuanceError(error);
    }
  }

  /** @returns The chain of the answer. @throws ConnectError */
  async #call(
    csr: string,
    spiffeId: SpiffeId,
    signal: AbortSignal,
    trace: TraceContext,
  ): Promise<readonly string[]> {
    const { channel, metrics, random } = this.#ports;
    const log = tracedLog(this.#ports.log, trace);
    const request = requestFor(this.#settings, csr, spiffeId);
    const timeoutMs = this.#settings.attemptTimeoutMilliseconds;
    const attempt = async (retries: number): Promise<readonly string[]> => {
      const headers = await requestHeaders(this.#settings, retries, log);
      for (const [name, value] of Object.entries(traceHeaders(trace))) headers.set(name, value);
      const client = createClient(IstioCertificateService, await channel.transport());
      return (await client.createCertificate(request, { headers, signal, timeoutMs })).certChain;
    };
    const attempts = this.#hasFailed ? 1 : maximumAttempts;
    const onRetry = (error: ConnectError): void => {
      metrics.retried();
      logRetry(log, spiffeId, error);
    };
    const chain = await callWithRetry(attempt, { attempts, signal, random, onRetry });
    this.#hasFailed = false;
    return chain;
  }
}

const requestFor = (
  { lifetimeSeconds, impersonates, certSigner }: RequestSettings,
  csr: string,
  spiffeId: SpiffeId,
) => ({
  csr,
  validityDuration: BigInt(lifetimeSeconds),
  metadata: impersonates ? { ImpersonatedIdentity: spiffeId } : { CertSigner: certSigner },
});

function logRetry(log: OperationLog, spiffeId: SpiffeId, error: ConnectError): void {
  const [code, detail] = [Code[error.code], messageOf(error)];
  log.operation({ event: "csr-retried", level: "warning", spiffeId, code, detail });
}

/** A log whose lines all belong to one call. */
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
  const detail = `the CA answered ${messageOf(error)}`;
  return new IssuanceError(fault, detail, error, secondsToWait(error));
}

/** Attempts of one call. */
export const maximumAttempts = 5;

const backoff: Backoff = {
  firstMilliseconds: 100,
  longestMilliseconds: 800,
  spread: [0.9, 1.1],
};

/** The pause after so many attempts of a call. */
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

/** The dependencies of a retried call. */
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
