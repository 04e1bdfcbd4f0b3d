import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { Counter, type Registry } from "prom-client";
import { createLeaseCandidate } from "../../foundation/lease.ts";
import { leaseObject, leaseSeconds } from "../../kubernetes/lease.ts";
import {
  addConfigurationMetrics,
  withConfigurationReasons,
} from "../../program/configuration-status.ts";
import {
  addReadGauge,
  addReadyGauge,
  countingOperations,
  createRegistry,
} from "../../program/metrics.ts";
import { ReplaceableWork } from "../../program/replaceable-work.ts";
import type { Reconfigure } from "../../program/running-configuration.ts";
import { openApiServer } from "../files/cluster-place.ts";
import { openUpstream, tokenInFile } from "../gateway/upstream.ts";
import type { Listener } from "../http/listener.ts";
import { monitorWork } from "../http/monitored-work.ts";
import type { ServerContext } from "../server.ts";
import { type Answered, answerRequests, type SignerWork } from "./answers.ts";
import { certificatesFrom } from "./certificate-source.ts";
import { runElection } from "./leadership.ts";
import type { SignerConfiguration } from "./signer-configuration.ts";

/** A running `rampart signer`. */
export interface RunningSigner extends Listener {
  readonly reconfigure: Reconfigure<SignerConfiguration>;
}

/**
 * Answers the requests of Kubernetes for certificates of its signer names, by asking the CA. It holds no
 * authority key: the CA signs, and decides what the account of this program may ask for.
 */
export async function runSigner(
  configuration: SignerConfiguration,
  context: ServerContext,
): Promise<RunningSigner> {
  const registry = createRegistry();
  const { configurationStatus } = context;
  const log = countingOperations(context.log, registry);
  const answered = countAnswers(registry);
  // Work that outlives a failed start would keep a process alive that no probe can reach.
  await using starting = new AsyncDisposableStack();
  const work = await ReplaceableWork.open(configuration, (next) =>
    beginSigning(next, { ...context, log, answered }),
  );
  starting.defer(work.end);
  const readiness = (): Readiness => {
    const { isLeading, reasons } = work.current();
    const faults = isLeading() ? reasons() : [];
    const state = { ready: faults.length === 0, leading: isLeading(), reasons: faults };
    return withConfigurationReasons(state, configurationStatus);
  };
  addGauges(registry, readiness, () => work.current().pending());
  addConfigurationMetrics(registry, configurationStatus);
  const monitored = await monitorWork(starting, {
    readiness,
    registry,
    listen: configuration.monitoringListen,
    log,
  });
  return { ...monitored, reconfigure: work.reconfigure };
}

/** The part of this process under one configuration. */
interface Signing {
  readonly isLeading: () => boolean;
  readonly pending: () => number;
  readonly reasons: () => readonly string[];
  readonly end: () => Promise<void>;
}

/**
 * Each configuration has a candidate of its own. The next one takes the lease once the former has released it,
 * within two seconds, so that one configuration alone answers at a time.
 */
async function beginSigning(
  configuration: SignerConfiguration,
  { log, clock, pause, answered }: ServerContext & { readonly answered: Answered },
): Promise<Signing> {
  const { upstream: url, upstreamRootsFile, tokenFile, cluster, lease } = configuration;
  await using starting = new AsyncDisposableStack();
  const upstream = await openUpstream(url, upstreamRootsFile);
  starting.defer(upstream.close);
  const client = await openApiServer(configuration.apiServer);
  const identity = `${hostname()}_${randomUUID()}`;
  let current: SignerWork | undefined;
  const leadership = runElection({
    candidate: createLeaseCandidate(leaseObject(client.send, lease), identity, leaseSeconds),
    work: (signal) => {
      const source = certificatesFrom(upstream, tokenInFile(tokenFile, cluster), signal);
      const answering = { client, log, answered, clock, pause, signal };
      current = answerRequests(configuration, source, answering);
      return current;
    },
    ...{ log, clock, pause },
  });
  starting.defer(leadership.end);
  const begun = starting.move();
  return {
    isLeading: leadership.isLeading,
    pending: () => (leadership.isLeading() ? (current?.pending() ?? 0) : 0),
    reasons: () => current?.reasons() ?? [],
    end: () => begun.disposeAsync(),
  };
}

/** A process that waits for the lease is ready to take it. */
interface Readiness {
  readonly ready: boolean;
  readonly leading: boolean;
  readonly reasons: readonly string[];
}

function countAnswers(registry: Registry): Answered {
  const answers = new Counter({
    name: "rampart_signer_answers_total",
    help: "Answers to requests of Kubernetes, by kind and outcome.",
    labelNames: ["kind", "outcome"],
    registers: [registry],
  });
  return (kind, outcome) => answers.inc({ kind, outcome });
}

function addGauges(registry: Registry, readiness: () => Readiness, pending: () => number): void {
  const help = "1 when nothing keeps requests from being answered.";
  addReadyGauge(registry, help, () => readiness().ready);
  addReadGauge(registry, {
    name: "rampart_signer_leading",
    help: "1 when this process holds the lease.",
    read: () => (readiness().leading ? 1 : 0),
  });
  addReadGauge(registry, {
    name: "rampart_signer_pending",
    help: "Requests that await an answer.",
    read: pending,
  });
}
