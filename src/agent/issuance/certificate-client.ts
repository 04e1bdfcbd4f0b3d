import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import { OperatorError } from "../../foundation/operator-error.ts";
import { type TraceContext, traceFields, traceHeaders } from "../../foundation/trace-context.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { createCertificateRequest } from "../../program/certificate-request.ts";
import { readTokenFileIfAny } from "../../program/files/token-file.ts";
import { generateSubjectKey, type SubjectKeyKind } from "../identity/subject-key.ts";
import { type CertificatePurpose, type Issuance, parseIssuance } from "../identity/x509-svid.ts";
import type { IssuanceMetrics } from "../status/metrics.ts";
import type { CaChannel } from "./ca-channel.ts";
import { callWithRetry, maximumAttempts, secondsToWait } from "./call-retry.ts";
import { IssuanceError } from "./issuance-error.ts";

/**
 * Requests a certificate for a new key. All attempts carry the trace of the call.
 *
 * @throws IssuanceError
 */
export type Issue = (
  spiffeId: SpiffeId,
  signal: AbortSignal,
  trace: TraceContext,
) => Promise<Issuance>;

/** The fields and headers of a request besides its CSR, and the kind of its key. */
export interface RequestSettings {
  readonly key: SubjectKeyKind;
  readonly lifetimeSeconds: number;
  readonly tokenFile: string;
  readonly clusterId: string;
  readonly certSigner: string;
  /** A serving certificate has the DNS names that the CA chooses, in place of the SPIFFE ID. */
  readonly purpose: CertificatePurpose;
  readonly headers: Readonly<Record<string, string>>;
  /** Istio's agents have no timeout, and hang with a CA that never answers. */
  readonly attemptTimeoutMilliseconds: number;
  /** Whether the agent is a node proxy, which names the workload in each request. */
  readonly impersonates: boolean;
}

/** The dependencies of the client. */
export interface CertificateClientPorts {
  readonly channel: CaChannel;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: OperationLog;
  readonly metrics: IssuanceMetrics;
}

/**
 * Creates a client of CreateCertificate. Its requests are those of pilot-agent or of a node proxy. A call is
 * tried five times, but only once while the last call has failed: in an outage a whole mesh would else make
 * five times the calls, and find no sooner that it is over.
 */
export function createCertificateClient(
  settings: RequestSettings,
  ports: CertificateClientPorts,
): Issue {
  const { channel, clock, metrics } = ports;
  let hasFailed = false;
  return async (spiffeId, signal, trace) => {
    const log = tracedLog(ports.log, trace);
    const subjectKey = await generateSubjectKey(settings.key);
    const csr = await createCertificateRequest(subjectKey, spiffeId);
    const request = requestFor(settings, csr, spiffeId);
    const call = async (retries: number): Promise<readonly string[]> => {
      const headers = await requestHeaders(settings, retries, log);
      for (const [name, value] of Object.entries(traceHeaders(trace))) headers.set(name, value);
      const client = createClient(IstioCertificateService, await channel.transport());
      const options = { headers, signal, timeoutMs: settings.attemptTimeoutMilliseconds };
      return (await client.createCertificate(request, options)).certChain;
    };
    const onRetry = (error: ConnectError): void => {
      metrics.retried();
      logRetry(log, spiffeId, error);
    };
    const issue = async (): Promise<Issuance> => {
      const elements = await callWithRetry(call, {
        attempts: hasFailed ? 1 : maximumAttempts,
        ...{ signal, random: ports.random, onRetry },
      });
      hasFailed = false;
      const { privateKey } = subjectKey;
      return parseIssuance(elements, { spiffeId, privateKey }, clock(), settings.purpose);
    };
    try {
      return await metrics.timed(issue);
    } catch (error) {
      hasFailed ||= error instanceof ConnectError && !signal.aborted;
      channel.reset();
      throw toIssuanceError(error);
    }
  };
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
