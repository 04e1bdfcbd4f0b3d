import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import type { EventName } from "../../foundation/event-names.ts";
import type { Pause } from "../../foundation/work/pause.ts";
import type { KubernetesClient } from "../../kubernetes/client.ts";
import {
  answerPodCertificate,
  type PodCertificateRequest,
  type PodCertificatesVersion,
  parsePodCertificateRequest,
  podCertificateListing,
} from "../../kubernetes/pod-certificate-request.ts";
import {
  answerServiceCertificate,
  decide,
  parseServiceCertificateRequest,
  type ServiceCertificateRequest,
  serviceCertificateListing,
} from "../../kubernetes/service-certificate-request.ts";
import { watchCollection } from "../../kubernetes/watch.ts";
import type { PodCertificates } from "./pod-certificates.ts";
import { createRequestQueue, type RequestQueue } from "./request-queue.ts";
import type { ServiceCertificates } from "./service-certificates.ts";

/** The kinds of request that a signer answers, as metrics name them. */
export type RequestKind = "pod" | "service";

/** Takes each answer that a request gets. */
export type Answered = (kind: RequestKind, outcome: "issued" | "denied" | "failed") => void;

/** The parts that the queues of one signer name share. */
export interface AnswerContext {
  readonly signer: string;
  readonly client: KubernetesClient;
  readonly log: OperationLog;
  readonly answered: Answered;
  readonly clock: () => Date;
  readonly pause?: Pause | undefined;
  readonly signal: AbortSignal;
}

/** A queue that a watch fills. */
export interface WatchedQueue extends RequestQueue {
  /** Whether all requests of the cluster have been listed once. */
  readonly hasAll: () => boolean;
}

/** Answers the PodCertificateRequests for a signer. */
export function podQueue(
  context: AnswerContext,
  version: PodCertificatesVersion,
  certificates: PodCertificates,
): WatchedQueue {
  const { client, signer, log, answered } = context;
  const answer = async (request: PodCertificateRequest, now: Date): Promise<void> => {
    const status = await certificates(request);
    await answerPodCertificate(client, version, request, status, now);
    const { namespace, name, account, pod, node } = request;
    const about = { signer, namespace, request: name, account: account.name, pod: pod.name, node };
    if (status.type === "Issued") {
      const notAfter = status.notAfter.toISOString();
      log.operation({ event: "pod-certificate-issued", level: "info", ...about, notAfter });
      answered("pod", "issued");
    } else {
      const { reason, message: detail } = status;
      const event = status.type === "Denied" ? "pod-certificate-denied" : "pod-certificate-failed";
      log.operation({ event, level: "warning", detail, reason, ...about });
      answered("pod", status.type === "Denied" ? "denied" : "failed");
    }
  };
  const listing = podCertificateListing(version, signer);
  return watchedQueue(context, listing, parsePodCertificateRequest, answer);
}

/** Approves or denies the CertificateSigningRequests for a signer, and answers those that it approves. */
export function serviceQueue(
  context: AnswerContext,
  { admit, certificateFor }: ServiceCertificates,
): WatchedQueue {
  const { client, signer, log, answered } = context;
  const answer = async (request: ServiceCertificateRequest): Promise<void> => {
    const admitted = await admit(request);
    const { name, requester } = request;
    const account = requester ? `${requester.namespace}/${requester.name}` : undefined;
    const about = { signer, request: name, account };
    if ("type" in admitted) {
      await decide(client, request, admitted);
      const { reason, message: detail } = admitted;
      const event = "service-certificate-denied";
      log.operation({ event, level: "warning", detail, reason, ...about });
      return answered("service", admitted.type === "Denied" ? "denied" : "failed");
    }
    // First, so that no certificate is issued that the API server does not take.
    if (!request.isApproved) await decide(client, request, approval);
    await answerServiceCertificate(client, request, await certificateFor(admitted));
    const dnsNames = admitted.dnsNames.join(",");
    log.operation({ event: "service-certificate-issued", level: "info", ...about, dnsNames });
    answered("service", "issued");
  };
  const listing = serviceCertificateListing(signer);
  return watchedQueue(context, listing, parseServiceCertificateRequest, answer);
}

const approval = {
  type: "Approved",
  reason: "AdmittedByPolicy",
  message: "the configuration of rampart signer admits the requester, the usages and the names",
} as const;

function watchedQueue<Request>(
  { client, signer, log, clock, pause, signal }: AnswerContext,
  listing: Parameters<typeof watchCollection>[0]["listing"],
  keep: (object: unknown) => readonly [string, Request | undefined] | undefined,
  answer: (request: Request, now: Date) => Promise<void>,
): WatchedQueue {
  const warn = (event: EventName, detail: string, fields = {}): void => {
    if (!signal.aborted) log.operation({ event, level: "warning", detail, signer, ...fields });
  };
  const collection = watchCollection<Request>({
    ...{ client, listing, keep, signal },
    ...(pause && { pause }),
    failed: (error) => warn("watch-failed", `the API server ${messageOf(error)}`),
  });
  const queue = createRequestQueue({
    items: collection.items,
    answer,
    failed: (detail, request) => warn("request-not-answered", detail, { request }),
    clock,
  });
  return { ...queue, hasAll: collection.hasAll };
}
