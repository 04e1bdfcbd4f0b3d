import { Code, type ConnectError, createClient } from "@connectrpc/connect";
import type { OperationLog } from "../../foundation/events.ts";
import type { TraceContext } from "../../foundation/headers.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { createCertificateRequest } from "../../program/certificate-request.ts";
import { callFault } from "../../program/tls-policy.ts";
import type { RequestSettings } from "../configuration/ca-settings.ts";
import type { CaClient } from "./ca-client.ts";
import { type CaAnswer, generateSubjectKey, parseAnswer } from "./x509-svid.ts";

/** {@link CertificateClient.issue} */
export type Issue = CertificateClient["issue"];

/** The counters of the CA client, with pilot-agent's meanings. */
export interface IssuanceMetrics {
  /** Requests a certificate, with all attempts, and counts it once, with its failure and its duration. */
  timed<T>(request: () => Promise<T>): Promise<T>;
  /** Counts an attempt after the first. */
  retried(): void;
}

interface CertificateClientPorts {
  readonly ca: CaClient;
  readonly clock: () => Date;
  readonly metrics: IssuanceMetrics;
}

/** A client of CreateCertificate. Its requests are those of pilot-agent or of a node proxy. */
export class CertificateClient {
  readonly #settings: RequestSettings;
  readonly #ports: CertificateClientPorts;

  constructor(settings: RequestSettings, ports: CertificateClientPorts) {
    this.#settings = settings;
    this.#ports = ports;
  }

  /** Requests a certificate for a new key. All attempts carry the trace of the call. @throws IssuanceError */
  async issue(spiffeId: SpiffeId, signal: AbortSignal, trace: TraceContext): Promise<CaAnswer> {
    const { metrics, ca, clock } = this.#ports;
    const { key, purpose } = this.#settings;
    const subjectKey = await generateSubjectKey(key);
    const csr = await createCertificateRequest(subjectKey, spiffeId);
    const requested = { spiffeId, privateKey: subjectKey.privateKey };
    const request = requestFor(this.#settings, csr, spiffeId);
    const onRetry = (error: ConnectError, log: OperationLog): void => {
      metrics.retried();
      logRetry(log, spiffeId, error);
    };
    return await metrics.timed(async () => {
      const { certChain } = await ca.call({
        send: (transport, options) =>
          createClient(IstioCertificateService, transport).createCertificate(request, options),
        ...{ signal, trace, onRetry },
      });
      return parseAnswer(certChain, requested, clock(), purpose);
    });
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
  const [code, detail] = [Code[error.code], callFault(error)];
  log.operation({ event: "csr-retried", level: "warning", spiffeId, code, detail });
}
