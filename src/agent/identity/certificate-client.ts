import { Code, type ConnectError, createClient } from "@connectrpc/connect";
import type { OperationLog } from "../../foundation/events.ts";
import type { TraceContext } from "../../foundation/headers.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { createCertificateRequest } from "../../program/certificate-request.ts";
import { callFault } from "../../program/tls-policy.ts";
import type { RequestSettings } from "../configuration/ca-settings.ts";
import type { CaClient } from "./ca-client.ts";
import { type CaAnswer, generateSubjectKey, parseAnswer } from "./x509-svid.ts";

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
        ...{ signal, trace, onRetry },
      });
      return parseAnswer(certChain, { spiffeId, privateKey }, clock(), purpose);
    });
  };
  return (...request) => requests.run(() => issue(...request));
}
