import { isRecent } from "../../foundation/caches.ts";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationalEvent, OperationLog } from "../../foundation/events.ts";
import { FetchError } from "../../foundation/fetch.ts";
import type { Pause } from "../../foundation/pause.ts";
import { sparing } from "../../foundation/sparing-log.ts";
import { KubernetesClient } from "../../kubernetes/client.ts";
import type { Listing } from "../../kubernetes/list-pages.ts";
import { WatchedCollection } from "../../kubernetes/watch.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { Recurrence } from "../../program/recurrence.ts";
import type { CertificateSource } from "../gateway/certificate-source.ts";
import { certManagerCertificates, issuedFault } from "./cert-manager-certificates.ts";
import { certManagerIsServed, Issuers, issuerGroup } from "./cert-manager-issuers.ts";
import {
  type CertManagerRequest,
  type CertManagerStatus,
  certManagerListing,
  parseCertManagerRequest,
  writeStatus,
} from "./cert-manager-request.ts";
import {
  answerPodCertificate,
  type PodCertificateRequest,
  type PodCertificatesVersion,
  parsePodCertificateRequest,
  podCertificateListing,
  podCertificatesVersion,
} from "./pod-certificate-request.ts";
import { type PodCertificates, podCertificates } from "./pod-certificates.ts";
import { RequestQueue } from "./request-queue.ts";
import {
  answerServiceCertificate,
  decide,
  parseServiceCertificateRequest,
  type ServiceCertificateRequest,
  serviceCertificateListing,
} from "./service-certificate-request.ts";
import { type ServiceCertificates, serviceCertificates } from "./service-certificates.ts";
import type { SignerConfiguration, SignerName } from "./signer-configuration.ts";

/** The kinds of request that a signer answers, as metrics name them. */
type RequestKind = "pod" | "service" | "cert-manager";

/** Counts the outcome of a request. */
export type Answered = (kind: RequestKind, outcome: "issued" | "denied" | "failed") => void;

interface AnswerContext {
  readonly signer: string;
  readonly client: KubernetesClient;
  readonly log: OperationLog;
  readonly answered: Answered;
  readonly clock: () => Date;
  readonly pause?: Pause | undefined;
  readonly signal: AbortSignal;
  /** The roots that the CA publishes, PEM; `undefined` before it has answered. */
  readonly roots: () => string | undefined;
  /** Why the CA cannot be asked. */
  readonly caFaults: () => readonly string[];
  /** Called when the API server no longer serves the collection. */
  readonly gone?: () => void;
}

type Answer<Request> = ConstructorParameters<typeof RequestQueue<Request>>[0]["answer"];

type WatchedQueue = Pick<RequestQueue<unknown>, "work" | "pending" | "hasAll" | "trouble">;

function podQueue(
  context: AnswerContext,
  version: PodCertificatesVersion,
  certificates: PodCertificates,
): WatchedQueue {
  const { client, signer, log, answered } = context;
  const answer: Answer<PodCertificateRequest> = async (request, now, mayAskCa) => {
    const judged = await certificates(request);
    const isAdmitted = typeof judged === "function";
    if (isAdmitted && !mayAskCa()) return false;
    const status = isAdmitted ? await judged(now) : judged;
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
    return true;
  };
  const listing = podCertificateListing(version, signer);
  const keep = parsePodCertificateRequest;
  const ownerOf = ({ namespace }: PodCertificateRequest) => namespace;
  const octetsOf = ({ key }: PodCertificateRequest) =>
    "pkcs10" in key ? key.pkcs10.length : key.publicKey.length + 2 * key.signature.length;
  return watchedQueue(context, { listing, keep, octetsOf, ownerOf, answer });
}

/**
 * Creates the queue that approves or denies the CertificateSigningRequests for a signer, and issues certificates for
 * those that it approves.
 */
function serviceQueue(
  context: AnswerContext,
  { admit, certificateFor }: ServiceCertificates,
): WatchedQueue {
  const { client, signer, log, answered } = context;
  const answer: Answer<ServiceCertificateRequest> = async (request, _, mayAskCa) => {
    const admitted = await admit(request);
    const { name, requester } = request;
    const account = requester && `${requester.account.namespace}/${requester.account.name}`;
    const about = { signer, request: name, account };
    if ("type" in admitted) {
      await decide(client, request, admitted);
      const { reason, message: detail } = admitted;
      const event = "service-certificate-denied";
      log.operation({ event, level: "warning", detail, reason, ...about });
      answered("service", admitted.type === "Denied" ? "denied" : "failed");
      return true;
    }
    if (!mayAskCa()) return false;
    // Decided first, so that no certificate is issued whose approval the API server refuses.
    if (!request.isApproved) await decide(client, request, approval);
    await answerServiceCertificate(client, request, await certificateFor(admitted));
    const dnsNames = admitted.dnsNames.join(",");
    log.operation({ event: "service-certificate-issued", level: "info", ...about, dnsNames });
    answered("service", "issued");
    return true;
  };
  const listing = serviceCertificateListing(signer);
  const keep = parseServiceCertificateRequest;
  const ownerOf = ({ requester }: ServiceCertificateRequest) => requester?.account.namespace ?? "";
  const octetsOf = ({ name, csrPem, usages }: ServiceCertificateRequest) =>
    2 * (name.length + csrPem.length + usages.join().length);
  return watchedQueue(context, { listing, keep, octetsOf, ownerOf, answer });
}

/** The source of certificates, and their trust domain. */
interface Issuance {
  readonly trustDomain: TrustDomain;
  readonly certificate: CertificateSource;
}

/** Creates the queue that answers the CertificateRequests of cert-manager to all issuers of Rampart. */
function certManagerQueue(
  context: AnswerContext,
  signers: readonly SignerName[],
  issuers: Issuers,
  { trustDomain, certificate }: Issuance,
): WatchedQueue {
  const { client, clock } = context;
  const judges = new Map(
    signers.map((each) => [each.name, certManagerCertificates(each, trustDomain)]),
  );
  const end = async (request: CertManagerRequest, status: CertManagerStatus): Promise<true> => {
    await writeStatus(client, request, status, clock());
    noteCertManagerAnswer(context, request, status);
    return true;
  };
  const wait = async (request: CertManagerRequest, message: string): Promise<false> => {
    if (request.isPending) return false;
    await writeStatus(client, request, { reason: "Pending", message }, clock());
    return false;
  };
  const answer: Answer<CertManagerRequest> = async (request, _, mayAskCa) => {
    if (request.isDenied) return end(request, deniedByApprover);
    if (!issuers.hasAll()) return false;
    const issuer = issuers.find(request.namespace, request.issuer);
    const judge = judges.get(issuer?.spec.signerName ?? "");
    if (!(issuer && judge))
      return wait(request, "there is no such issuer, or its signer is unknown");
    const roots = context.roots();
    // Checked before the CSR's signature, which every poll would verify again.
    if (roots === undefined) return wait(request, waitsForCa);
    const judged = await judge(request);
    if ("reason" in judged) return end(request, judged);
    if (!mayAskCa()) return wait(request, waitsForCa);
    const chain = await certificate(judged.ask).catch(async (error: unknown) => {
      issuers.note(issuer, error);
      await wait(request, waitsForCa);
      throw error;
    });
    issuers.note(issuer);
    const issued = { reason: "Issued", chain: chain.join(""), roots } as const;
    return end(request, issuedFault(chain, judged) ?? issued);
  };
  const octetsOf = ({ csrPem, usages }: CertManagerRequest) =>
    2 * (csrPem.length + usages.join().length);
  const ownerOf = ({ namespace }: CertManagerRequest) => namespace;
  const [listing, keep] = [certManagerListing, parseCertManagerRequest];
  return watchedQueue(context, { listing, keep, octetsOf, ownerOf, answer });
}

const deniedByApprover = {
  reason: "Denied",
  message: "The CertificateRequest was denied by an approval controller",
} as const;

/** Without the fault itself, because the requester may be a tenant. */
const waitsForCa = "waits for the CA; the log of rampart signer says why";

function noteCertManagerAnswer(
  { log, answered }: AnswerContext,
  { namespace, name, requester, issuer }: CertManagerRequest,
  status: CertManagerStatus,
): void {
  const account = requester && `${requester.account.namespace}/${requester.account.name}`;
  const about = { signer: `${issuer.kind}/${issuer.name}`, namespace, request: name, account };
  if (status.reason === "Issued") {
    log.operation({ event: "certificate-request-issued", level: "info", ...about });
    answered("cert-manager", "issued");
  } else {
    const { reason, message: detail } = status;
    log.operation({
      event: "certificate-request-failed",
      level: "warning",
      detail,
      reason,
      ...about,
    });
    answered("cert-manager", reason === "Denied" ? "denied" : "failed");
  }
}

const approval = {
  type: "Approved",
  reason: "AdmittedByPolicy",
  message: "the configuration of rampart signer admits the requester, the usages and the names",
} as const;

/**
 * Bounds the waiting requests. Each has up to 180 KiB, usually two, and a user who may create requests could fill the
 * memory while the CA is unreachable.
 */
const backlog = { items: 2_000, octets: 16 * 1024 * 1024, restSeconds: 15 };

interface WatchedRequests<Request> {
  readonly listing: Listing;
  readonly keep: (object: unknown) => readonly [string, Request | undefined] | undefined;
  /** The octets of memory of a request: text beyond Latin-1 has two octets for each character. */
  readonly octetsOf: (request: Request) => number;
  /** The namespace of a request. Namespaces take turns and have shares of the memory. */
  readonly ownerOf: (request: Request) => string;
  readonly answer: Answer<Request>;
}

type Warn = (event: OperationalEvent["event"], detail: string, fields?: object) => void;

function sparingly({ log, clock, signal, signer }: AnswerContext): Warn {
  const few = sparing(log, clock);
  return (event, detail, fields = {}) => {
    if (!signal.aborted) few.operation({ event, level: "warning", detail, signer, ...fields });
  };
}

function watchFailed({ gone }: AnswerContext, warn: Warn, error: unknown): void {
  warn("watch-failed", `the API server ${messageOf(error)}`);
  if (error instanceof FetchError && error.status === 404) gone?.();
}

function watchedQueue<Request>(
  context: AnswerContext,
  { listing, keep, octetsOf, ownerOf, answer }: WatchedRequests<Request>,
): WatchedQueue {
  const { client, clock, pause, signal } = context;
  const warn = sparingly(context);
  const requests = WatchedCollection.watch<Request>({
    client,
    listing,
    keep,
    signal,
    bound: { ...backlog, octetsOf, ownerOf },
    ...(pause && { pause }),
    failed: (error) => watchFailed(context, warn, error),
  });
  return new RequestQueue({
    requests,
    answer,
    ownerOf,
    failed: (detail, request) => warn("request-not-answered", detail, { request }),
    clock,
  });
}

/** How often the queues are polled for requests that are due. */
const queueSeconds = 0.25;

/** How long until an API server without a collection is asked again. */
const absenceSeconds = 15;

/** How often the conditions of issuers are updated. */
const reportSeconds = 2;

/** Answers the requests for all signer names, until the signal aborts. */
export function answerRequests(
  { signers, trustDomain }: SignerConfiguration,
  certificate: CertificateSource,
  context: Omit<AnswerContext, "signer">,
) {
  const { log, pause, signal } = context;
  const issuance: Issuance = { trustDomain, certificate };
  const queues = signers.flatMap((signer): WatchedQueue[] => {
    const own = { ...context, signer: signer.name };
    const { pods, services } = signer;
    return [
      ...(pods
        ? [servedPodQueue(own, podCertificates(signer, pods, trustDomain, certificate))]
        : []),
      ...(services.length > 0 ? [serviceQueue(own, serviceCertificates(signer, certificate))] : []),
    ];
  });
  const ofCertManager = signers.filter(({ cert_manager }) => cert_manager.length > 0);
  if (ofCertManager.length > 0) {
    queues.push(
      servedCertManagerQueue({ ...context, signer: issuerGroup }, ofCertManager, issuance),
    );
  }
  const fault = (error: unknown): void =>
    KubernetesClient.logFault(log, "request-not-answered", error);
  const running = queues.map((queue) =>
    Recurrence.start(() => queue.work(), queueSeconds, fault, pause),
  );
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => resolve(), { once: true });
  if (signal.aborted) resolve();
  return {
    ended: aborted.then(async () => {
      await Promise.all(running.map(({ end }) => end()));
    }),
    pending: () => queues.reduce((sum, queue) => sum + queue.pending(), 0),
    /** Why requests cannot be answered. */
    reasons: () =>
      queues.flatMap((queue) => {
        const reason = queue.trouble();
        if (reason !== undefined) return [reason];
        return queue.hasAll() ? [] : ["the requests of the cluster have not been listed yet"];
      }),
  };
}

function servedPodQueue(context: AnswerContext, certificates: PodCertificates): WatchedQueue {
  const detail = "the API server serves no PodCertificateRequest: its feature gate is off";
  return whileServed(context, detail, async (opened) => {
    const version = await podCertificatesVersion(opened.client.send);
    return version && podQueue(opened, version, certificates);
  });
}

function servedCertManagerQueue(
  context: AnswerContext,
  signers: readonly SignerName[],
  issuance: Issuance,
): WatchedQueue {
  const detail = "the API server lacks the CRDs of cert-manager, or of Rampart's issuers";
  return whileServed(context, detail, async (opened) => {
    if (!(await certManagerIsServed(opened.client.send))) return undefined;
    const warn = sparingly(opened);
    const issuers = new Issuers({
      ...opened,
      signers,
      failed: (error) => watchFailed(opened, warn, error),
    });
    const failed = (error: unknown): void =>
      warn("request-not-answered", `a condition of an issuer: ${messageOf(error)}`);
    const reporting = Recurrence.start(() => issuers.report(), reportSeconds, failed, opened.pause);
    opened.signal.addEventListener("abort", () => void reporting.end(), { once: true });
    return certManagerQueue(opened, signers, issuers, issuance);
  });
}

/** The running work of a signer. */
export type SignerWork = Readonly<ReturnType<typeof answerRequests>>;

/**
 * A queue whose collection may not be served yet, or no longer: PodCertificateRequests need a feature gate, an update
 * may remove the watched version, and cert-manager may be installed later.
 *
 * @param absence What is logged while it is not served.
 */
function whileServed(
  context: AnswerContext,
  absence: string,
  open: (opened: AnswerContext) => Promise<WatchedQueue | undefined>,
): WatchedQueue {
  const { signer, log, clock } = context;
  let queue: WatchedQueue | undefined;
  let beganAt: Date | undefined;
  const begin = (): Promise<WatchedQueue | undefined> => {
    const ending = new AbortController();
    const gone = (): void => {
      ending.abort();
      queue = undefined;
      beganAt = undefined;
    };
    return open({ ...context, gone, signal: AbortSignal.any([context.signal, ending.signal]) });
  };
  return {
    work: async () => {
      if (!queue && !isRecent(beganAt, absenceSeconds, clock())) {
        beganAt = clock();
        queue = await begin();
        if (!queue)
          log.operation({ event: "not-served", level: "warning", detail: absence, signer });
      }
      await queue?.work();
    },
    pending: () => queue?.pending() ?? 0,
    trouble: () => queue?.trouble(),
    hasAll: () => queue?.hasAll() ?? false,
  };
}
