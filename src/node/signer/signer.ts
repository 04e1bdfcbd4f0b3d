import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Registry } from "prom-client";
import { messageOf } from "../../foundation/errors.ts";
import { OperationLog, type Readiness } from "../../foundation/events.ts";
import type { Pause } from "../../foundation/pause.ts";
import { Metrics } from "../../program/metrics.ts";
import { Program, type RunningProgram } from "../../program/program.ts";
import { Recurrence } from "../../program/recurrence.ts";
import type { ServerRoots } from "../distribute/server-roots.ts";
import { UpstreamBundle } from "../distribute/upstream-bundle.ts";
import { openApiServer } from "../files/places.ts";
import { certificatesFrom } from "../gateway/certificate-source.ts";
import { openUpstream, rememberedAuthorization, tokenInFile } from "../gateway/upstream.ts";
import { LeaseCandidate } from "../lease.ts";
import { ReplaceableWork } from "../replaceable-work.ts";
import { type FollowingProgram, monitorWork, type ServerContext } from "../server.ts";
import { type Answered, answerRequests, type SignerWork } from "./answers.ts";
import { leaseObject, leaseSeconds } from "./lease-object.ts";
import { signingOnce } from "./signed-certificates.ts";
import { SignerConfiguration } from "./signer-configuration.ts";

/**
 * Answers the requests of Kubernetes for certificates of its signer names, by asking the CA. It holds no
 * authority key: the CA signs, and decides what the account of this program may ask for.
 */
export function runSigner(
  configuration: SignerConfiguration,
  context: ServerContext,
): Promise<RunningProgram<SignerConfiguration>> {
  return Program.begin(context, async (program) => {
    const answered = countAnswers(program.registry);
    const work = await ReplaceableWork.open(configuration, (next, before?: Signing) =>
      beginSigning(next, { ...program, answered }, before?.serverRoots),
    );
    program.life.endsWith("the answers to requests", work.end);
    addGauges(program.registry, work.current);
    const monitored = await monitorWork(program, {
      listen: configuration.monitoringListen,
      readiness: () => readinessOf(work.current()),
      readyWhen: "1 when nothing keeps requests from being answered.",
    });
    return { ...monitored, reconfigure: work.reconfigure };
  });
}

/** `rampart signer`. */
export const signer: FollowingProgram<SignerConfiguration> = {
  ...SignerConfiguration,
  start: runSigner,
};

/**
 * Begins the work of one configuration, with a candidate of its own for the lease. It acquires the lease within two
 * seconds after the former candidate has released it, so that one configuration at a time answers requests.
 */
async function beginSigning(
  configuration: SignerConfiguration,
  { answered, ...context }: ServerContext & { readonly answered: Answered },
  former: ServerRoots | undefined,
) {
  const { upstream: url, tokenFile, cluster, lease } = configuration;
  const { log, clock, pause } = context;
  await using starting = new AsyncDisposableStack();
  const bundle = await UpstreamBundle.follow(configuration, context, undefined, former);
  const { serverRoots, end } = bundle;
  starting.defer(end);
  const upstream = openUpstream(url, () => serverRoots.pem);
  starting.defer(upstream.close);
  const client = await openApiServer(configuration.apiServer);
  const identity = `${hostname()}_${randomUUID()}`;
  let current: SignerWork | undefined;
  const credentials = tokenInFile(tokenFile, cluster, clock);
  const ownAuthorization = rememberedAuthorization(credentials, clock);
  let ownFault: string | undefined;
  const ownFaults = (): readonly string[] =>
    ownFault === undefined ? [] : [`the signer's own token: ${ownFault}`];
  const roots = (): string | undefined => bundle.current()?.pem;
  const caFaults = (): readonly string[] => [...bundle.faults(), ...ownFaults()];
  // Outlives the lease, because an outage that makes this process lose it may also lose a status that it has written.
  const once = signingOnce(clock);
  const leadership = new Leadership({
    candidate: LeaseCandidate.create(leaseObject(client.send, lease), identity, leaseSeconds),
    work: (signal) => {
      const source = once(certificatesFrom(upstream, credentials, signal));
      const answering = { client, log, answered, clock, pause, signal, roots, caFaults };
      current = answerRequests(configuration, source, answering);
      return current;
    },
    log,
    clock,
    pause,
  });
  starting.defer(() => leadership.end());
  const begun = starting.move();
  return {
    serverRoots,
    isLeading: () => leadership.isLeading(),
    pending: () => (leadership.isLeading() ? (current?.pending() ?? 0) : 0),
    reasons: () => {
      // Each probe asks, because otherwise an expired token would show only when a certificate is requested. It does not
      // wait for the answer: the next probe reports it.
      void ownAuthorization().then(({ fault }) => {
        ownFault = fault;
      });
      const reasons = leadership.isLeading() ? current?.reasons() : leadership.faults();
      return [...(reasons ?? []), ...ownFaults()];
    },
    end: () => begun.disposeAsync(),
  };
}

type Signing = Readonly<Awaited<ReturnType<typeof beginSigning>>>;

/** A process that waits for the lease is ready, unless it cannot ask for the lease. */
function readinessOf({ isLeading, reasons }: Signing): Readiness & { readonly leading: boolean } {
  const faults = reasons();
  return { ready: faults.length === 0, leading: isLeading(), reasons: faults };
}

function countAnswers(registry: Registry): Answered {
  const help =
    "Answers to requests of Kubernetes: pod, service or cert-manager; issued, denied or failed.";
  const answers = Metrics.addCounter(
    registry,
    "rampart_signer_answers_total",
    help,
    "kind",
    "outcome",
  );
  return (kind, outcome) => answers.inc({ kind, outcome });
}

function addGauges(registry: Registry, current: () => Signing): void {
  Metrics.addReadGauge(registry, {
    name: "rampart_signer_leading",
    help: "1 when this process holds the lease.",
    read: () => (current().isLeading() ? 1 : 0),
  });
  Metrics.addReadGauge(registry, {
    name: "rampart_signer_pending",
    help: "Requests that await an answer.",
    read: () => current().pending(),
  });
}

type LeaderWork = (signal: AbortSignal) => { readonly ended: Promise<void> };

/** The defaults of client-go, where a lease lasts 15 seconds. */
const retrySeconds = 2;
const renewalSeconds = 10;

interface Election {
  readonly candidate: LeaseCandidate;
  readonly work: LeaderWork;
  readonly log: OperationLog;
  readonly clock: () => Date;
  readonly pause?: Pause | undefined;
}

/**
 * Works while this process holds the lease, for which it asks from its construction until {@link end}. A holder that
 * cannot renew it stops before another process may begin.
 *
 * Two leaders at once would do no harm: an answer is final, so the API server accepts one of two.
 */
export class Leadership {
  readonly #election: Election;
  readonly #campaigning: Recurrence;
  #running: { readonly ending: AbortController; readonly ended: Promise<void> } | undefined;
  #renewedAt = new Date(0);
  #looked = new Date(0);
  #faults: readonly string[] = [];

  constructor(election: Election) {
    this.#election = election;
    const { log, pause } = election;
    const fault = (error: unknown): void =>
      OperationLog.logFault(log, "fault", error, { level: "error" });
    this.#campaigning = Recurrence.start(() => this.#campaign(), retrySeconds, fault, pause);
  }

  isLeading(): boolean {
    return this.#running !== undefined;
  }

  /** Why the last request for the lease failed; empty if it did not. */
  faults(): readonly string[] {
    return this.#faults;
  }

  /** Ends the work, and releases the lease so that another process begins at once. */
  async end(): Promise<void> {
    const { candidate, clock } = this.#election;
    await this.#campaigning.end();
    const wasLeading = this.isLeading();
    await this.#stop();
    // Releases the lease, because the next process would otherwise wait until it ends.
    if (wasLeading) await candidate.release(clock()).catch(() => {});
  }

  async #campaign(): Promise<void> {
    const { candidate, log, clock } = this.#election;
    const now = clock();
    const isSetBack = now < this.#looked;
    this.#looked = now;
    const faults: string[] = [];
    const isHolder = await candidate.acquire(clock).catch((error: unknown) => {
      const detail = `the API server ${messageOf(error)}`;
      log.operation({ event: "lease-not-renewed", level: "warning", detail });
      faults.push(detail);
      return undefined;
    });
    this.#faults = faults;
    if (isHolder) {
      this.#renewedAt = now;
      if (!this.#running) this.#begin();
    } else if (isHolder === false) await this.#lose("another process holds the lease");
    else if (isSetBack || clock().getTime() - this.#renewedAt.getTime() >= 1000 * renewalSeconds) {
      await this.#lose("the lease could not be renewed in time");
    }
  }

  #begin(): void {
    const { log, work } = this.#election;
    log.operation({ event: "leading", level: "info", detail: "this process answers requests now" });
    const ending = new AbortController();
    this.#running = { ending, ended: work(ending.signal).ended };
  }

  async #lose(detail: string): Promise<void> {
    if (!this.#running) return;
    this.#election.log.operation({ event: "not-leading", level: "warning", detail });
    await this.#stop();
  }

  async #stop(): Promise<void> {
    const stopped = this.#running;
    this.#running = undefined;
    stopped?.ending.abort();
    await stopped?.ended;
  }
}
