import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { Backoff, isRefusal, retry } from "../../foundation/backoff.ts";
import { messageOf, OperatorError } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { RetryAfter } from "../../foundation/headers.ts";
import type { Pause } from "../../foundation/pause.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import { TraceContext } from "../../foundation/trace-context.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { createCertificateRequest } from "../../program/certificate-request.ts";
import { errorCode } from "../../program/files/small-file.ts";
import { Handshake } from "../../program/tls-policy.ts";
import type { RequestSettings } from "../configuration/ca-settings.ts";
import type { CaChannel } from "./ca-channel.ts";
import { readToken } from "./token.ts";
import { type CaAnswer, generateSubjectKey, IssuanceError, parseAnswer } from "./x509-svid.ts";

interface CaClientPorts {
  readonly channel: Pick<CaChannel, "transport" | "isInHandshake" | "reset">;
  readonly random: () => number;
  readonly log: OperationLog;
  readonly pause?: Pause;
}

interface CaCall<Answer> {
  readonly send: (transport: Transport, options: CallOptions) => Promise<Answer>;
  readonly signal: AbortSignal;
  /** The trace context that all attempts carry. */
  readonly trace: TraceContext;
  /** Called after each failed attempt that is followed by another, with a log whose lines carry the trace. */
  readonly onRetry?: (error: ConnectError, log: OperationLog) => void;
}

/** The headers and bounds of one attempt. The headers have the credential. */
interface CallOptions {
  readonly headers: Headers;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/**
 * Calls the CA as pilot-agent or a node proxy does. A call gets five attempts, but only one if the last call failed:
 * otherwise a mesh would make five times the calls in an outage, and not notice its end any sooner.
 */
export class CaClient {
  readonly #settings: RequestSettings;
  readonly #ports: CaClientPorts;
  #hasFailed = false;

  constructor(settings: RequestSettings, ports: CaClientPorts) {
    this.#settings = settings;
    this.#ports = ports;
  }

  /**
   * Calls the CA. Before each attempt it reads the token anew; without a token file it calls unauthenticated and logs
   * `token-missing`. After a failure the next call opens a new connection.
   * @throws IssuanceError, with the reason of the last attempt.
   */
  async call<Answer>({ send, signal, trace, onRetry }: CaCall<Answer>): Promise<Answer> {
    const { channel, random, pause } = this.#ports;
    const log = tracedLog(this.#ports.log, trace);
    const timeoutMs = this.#settings.attemptTimeoutMilliseconds;
    const attemptOnce = async (retries: number): Promise<Answer> => {
      const headers = await requestHeaders(this.#settings, retries, log, signal);
      for (const [name, value] of Object.entries(TraceContext.headers(trace)))
        headers.set(name, value);
      const options = { headers, signal, timeoutMs };
      return await send(await channel.transport(), options).catch((error: unknown) => {
        throw channel.isInHandshake() ? outOfTime(error) : error;
      });
    };
    const attempt = (retries: number): Promise<Answer> =>
      attemptOnce(retries).catch((error: unknown) => {
        throw ConnectError.from(error);
      });
    const retryAfter = (error: unknown): 0 | undefined => {
      if (!(error instanceof ConnectError && isWorthRetrying(error))) return undefined;
      onRetry?.(error, log);
      return 0;
    };
    const attempts = this.#hasFailed ? 1 : Backoff.callAttempts;
    try {
      const means = { backoff: Backoff.usual.call, attempts, retryAfter, random, pause, signal };
      const answer = await retry(attempt, means);
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
  return { operation: (event) => log.operation({ ...event, ...TraceContext.logFields(trace) }) };
}

async function requestHeaders(
  { token: source, clusterId, headers }: RequestSettings,
  retries: number,
  log: OperationLog,
  signal: AbortSignal,
): Promise<Headers> {
  const allHeaders = new Headers(headers);
  const token = await readToken(source, signal).catch(tokenUnusable);
  if (token !== undefined) allHeaders.set("authorization", `Bearer ${token}`);
  else if (source.kind === "file")
    log.operation({ event: "token-missing", level: "warning", file: source.path });
  if (clusterId !== "") allHeaders.set("clusterid", clusterId);
  if (retries > 0) allHeaders.set("x-retry-attempt", String(retries));
  return allHeaders;
}

function tokenUnusable(error: unknown): never {
  throw new IssuanceError("token-unusable", messageOf(error), error);
}

/** Replaces an exceeded deadline by an error that says that the TLS handshake took too long. */
function outOfTime(error: unknown): unknown {
  const isLate = error instanceof ConnectError && error.code === Code.DeadlineExceeded;
  return isLate ? new ConnectError(`it ${Handshake.hint}`, error.code, {}, [], error) : error;
}

/** Whether another attempt may succeed at once: not after a refusal, the agent's own fault, or a request to wait. */
function isWorthRetrying(error: ConnectError): boolean {
  const isOwn = error.cause instanceof IssuanceError || error.cause instanceof OperatorError;
  return !isOwn && !isRefusal(error.code) && secondsToWait(error) === 0;
}

function toIssuanceError(error: unknown): unknown {
  if (error instanceof ConnectError === false) return error;
  // Connect wraps what the agent itself throws within a call.
  if (error.cause instanceof IssuanceError) return error.cause;
  if (error.cause instanceof OperatorError) {
    return new IssuanceError("authority-unreachable", error.cause.message, error);
  }
  const fault = isRefusal(error.code) ? "authority-refused" : "authority-unreachable";
  const message = `${beginningOf(error)} ${Handshake.faultOf(error)}`;
  return new IssuanceError(fault, message, error, secondsToWait(error));
}

/** Begins a message: the CA did not answer in time, it answered, or there was no connection. */
function beginningOf({ code, cause }: ConnectError): string {
  if (code === Code.DeadlineExceeded) return "no answer from the CA:";
  return errorCode(cause) === undefined ? "the CA answered" : "no connection to the CA:";
}

/**
 * The seconds for which a CA asks not to be called. They are 0 if it does not ask, and for a refusal that no retry can
 * turn into a certificate.
 */
function secondsToWait({ code, metadata }: ConnectError): number {
  if (isRefusal(code)) return 0;
  return RetryAfter.parse(metadata.get(RetryAfter.header)) ?? 0;
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

/** The most concurrent requests to the CA. A node proxy that starts must leave capacity for others. */
const maximumRequests = 8;

/** Creates the function that requests certificates by CreateCertificate, as pilot-agent or a node proxy does. */
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
      const [code, detail] = [Code[error.code], Handshake.faultOf(error)];
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
