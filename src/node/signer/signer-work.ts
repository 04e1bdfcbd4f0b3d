import { logFault } from "../../foundation/fault-log.ts";
import { podCertificatesVersion } from "../../kubernetes/pod-certificate-request.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { recur } from "../../program/recurrence.ts";
import { type AnswerContext, podQueue, serviceQueue, type WatchedQueue } from "./answers.ts";
import type { CertificateSource } from "./certificate-source.ts";
import { podCertificates } from "./pod-certificates.ts";
import { serviceCertificates } from "./service-certificates.ts";
import type { PodPolicy, SignerConfiguration, SignerName } from "./signer-configuration.ts";

/** The work of the leader. */
export interface SignerWork {
  readonly ended: Promise<void>;
  readonly pending: () => number;
  /** The faults that keep requests from being answered. */
  readonly reasons: () => readonly string[];
}

/** How often the queues look for requests that are due. */
const lookSeconds = 0.25;

/** How long an API server without PodCertificateRequests is left alone. */
const absenceSeconds = 15;

/** Answers the requests for all signer names, until the signal aborts. */
export function answerRequests(
  { signers, trustDomain }: SignerConfiguration,
  certificate: CertificateSource,
  context: Omit<AnswerContext, "signer">,
): SignerWork {
  const { log, pause, signal } = context;
  const queues = signers.flatMap((signer): WatchedQueue[] => {
    const own = { ...context, signer: signer.name };
    const { pods, services } = signer;
    return [
      ...(pods ? [whenServed(own, signer, pods)] : []),
      ...(services.length > 0 ? [serviceQueue(own, serviceCertificates(signer, certificate))] : []),
    ];
  });

  function whenServed(own: AnswerContext, signer: SignerName, policy: PodPolicy): WatchedQueue {
    const certificates = podCertificates(signer, policy, trustDomain, certificate);
    return onceOpen(own, async () => {
      const version = await podCertificatesVersion(own.client.send);
      return version && podQueue(own, version, certificates);
    });
  }

  const running = queues.map(({ work }) =>
    recur(work, lookSeconds, (error) => logFault(log, "request-not-answered", error), pause),
  );
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => resolve(), { once: true });
  if (signal.aborted) resolve();
  return {
    ended: aborted.then(async () => {
      await Promise.all(running.map(({ end }) => end()));
    }),
    pending: () => queues.reduce((sum, { pending }) => sum + pending(), 0),
    reasons: () =>
      queues.flatMap(({ hasAll, trouble }) => {
        const reason = trouble();
        if (reason !== undefined) return [reason];
        return hasAll() ? [] : ["the requests of the cluster have not been listed yet"];
      }),
  };
}

/** A queue whose collection may not be served yet: an API server has PodCertificateRequests by a feature gate. */
function onceOpen(
  { client: _, signer, log, clock }: AnswerContext,
  open: () => Promise<WatchedQueue | undefined>,
): WatchedQueue {
  let queue: WatchedQueue | undefined;
  let next = new Date(0);
  return {
    work: async () => {
      if (!queue && clock() >= next) {
        next = addSeconds(clock(), absenceSeconds);
        queue = await open();
        const detail = "the API server serves no PodCertificateRequest: its feature gate is off";
        if (!queue) log.operation({ event: "not-served", level: "warning", detail, signer });
      }
      await queue?.work();
    },
    pending: () => queue?.pending() ?? 0,
    trouble: () => queue?.trouble(),
    hasAll: () => queue?.hasAll() ?? false,
  };
}
