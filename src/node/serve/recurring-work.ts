import type { Registry } from "prom-client";
import type { Mint } from "../../ca/mint.ts";
import { Rotation } from "../../ca/rotation/rotate.ts";
import { createPushes, type PushSource } from "../../config/cluster-access.ts";
import type { Composition } from "../../config/composition.ts";
import type { Configuration } from "../../config/configuration.ts";
import type { PushReport } from "../../delivery/cluster-push.ts";
import { outcomesByCluster } from "../../delivery/outcomes-by-cluster.ts";
import type { PushLimits, PushOutcome } from "../../delivery/push-to-cluster.ts";
import { messageOf } from "../../foundation/errors.ts";
import { OperationLog } from "../../foundation/events.ts";
import { SingleFlight } from "../../foundation/single-flight.ts";
import type { PhaseLengths } from "../../pki/authority/schedule.ts";
import { NodeFetch } from "../../program/http/http-client.ts";
import { Metrics } from "../../program/metrics.ts";
import type { PluggedInImport, ServerContext } from "../server.ts";
import type { ReplicaStores } from "../stores/stores.ts";
import type { ServeConfiguration } from "./serve-configuration.ts";

/** The longest time between two rotations. */
export const longestRotationSeconds = 60;

interface RotatedParts {
  readonly composition: Composition;
  readonly configuration: ServeConfiguration;
  readonly push: RecurringPush;
}

/**
 * Creates a run that, in this replica's turn, imports a changed plugged-in CA, rotates every signer by the current
 * configuration, and begins the push.
 * @returns The run, which returns the seconds until the next one, also if it failed.
 */
export function rotationOf(
  current: () => RotatedParts,
  context: ServerContext,
  { inTurn }: Pick<ReplicaStores, "inTurn">,
): () => Promise<number> {
  const { clock, peerProcesses, random = Math.random } = context;
  const importChanged = pluggedInOf(current().configuration, context);
  return async () => {
    const { composition, configuration, push } = current();
    const { mint, signerMints } = composition;
    // Up to a tenth less at random, so that replicas that started together do not ask the store together.
    const seconds = rotationSeconds(configuration.ca.phaseLengths) * (1 - random() / 10);
    if (peerProcesses?.rotates() === false) return seconds;
    try {
      await inTurn(async () => {
        await importChanged(mint, clock());
        await Rotation.rotateAll([mint, ...signerMints.values()], clock()).finally(push.begin);
      });
    } catch {
      // A failed rotation has logged its faults, and the next one retries.
    }
    return seconds;
  };
}

function pluggedInOf(
  { importDirectory }: ServeConfiguration,
  { importPluggedIn, log }: ServerContext,
): ReturnType<typeof followPluggedIn> {
  if (importDirectory === undefined || !importPluggedIn) return async () => {};
  return followPluggedIn(importDirectory, importPluggedIn, log);
}

/** The seconds between rotations: short enough for every phase of a schedule, and for an operator who waits for one. */
function rotationSeconds({ longestLeafSeconds, signingSeconds }: PhaseLengths): number {
  return Math.min(longestRotationSeconds, longestLeafSeconds / 8, signingSeconds / 8);
}

/**
 * Creates the function that imports the CA that another program puts into a directory, as istiod does with `cacerts`.
 * It never rejects: a CA that cannot be imported is logged once, and changes nothing.
 */
export function followPluggedIn(
  directory: string,
  importFrom: PluggedInImport,
  log: OperationLog,
): (mint: Mint, now: Date) => Promise<void> {
  let logged: string | undefined;
  return async (mint, now) => {
    try {
      await importFrom(mint, directory, now);
      logged = undefined;
    } catch (error) {
      const detail = messageOf(error).replaceAll("\n", "; ");
      if (detail !== logged)
        log.operation({ event: "plugged-in-refused", level: "warning", detail });
      logged = detail;
    }
  };
}

/** The recurring delivery of roots and CRLs into clusters. */
export interface RecurringPush extends PushReport {
  /** The delivery of CRLs, which follows that of roots. */
  readonly crls: PushReport;
  /** Starts a run, unless one is under way. */
  readonly begin: () => void;
  /** Aborts the current run. The next process continues it. */
  readonly end: () => Promise<void>;
}

/** So that a run ends before the next rotation starts another, a minute later. */
const limits: PushLimits = {
  requests: 10_000,
  seconds: 50,
  clustersAtOnce: 8,
  writesAtOnce: 8,
};

/**
 * Prepares the delivery of roots and CRLs into the clusters of a configuration. Only one of several replicas delivers
 * at a time.
 * @throws ConfigurationError if a credential is missing, or this platform cannot have the access.
 */
export function pushRoots(
  configuration: Configuration,
  source: PushSource,
  { log, clock, fetchTimeoutMilliseconds, peerProcesses }: ServerContext,
  inTurn: ReplicaStores["pushInTurn"],
): RecurringPush {
  const fetching = { fetchTrusting: NodeFetch.trusting, fetchTimeoutMilliseconds };
  const parts = { limits, log };
  const { roots, crls, deliver } = createPushes(configuration, source, fetching, parts);
  const isIdle = roots.clusters.length === 0 && crls.clusters.length === 0;
  const ending = new AbortController();
  const pushes = new SingleFlight<unknown>();
  // Nothing while another process rotates: the outcomes would be outdated, and metrics would add them up.
  const ofRotating = ({ clusters, outcomes }: PushReport) => ({
    clusters,
    outcomes: () => (peerProcesses?.rotates() === false ? [] : outcomes()),
  });
  return {
    ...ofRotating(roots),
    crls: ofRotating(crls),
    begin: () => {
      if (ending.signal.aborted || isIdle) return;
      const { signal } = ending;
      const push = async (): Promise<void> => {
        // Read anew, because another replica may have delivered newer roots before this turn.
        await source.issuance.authorities.renew(clock());
        await deliver(clock(), signal);
      };
      const failed = (error: unknown): void =>
        OperationLog.logFault(log, "roots-not-delivered", error);
      void pushes.join(() => inTurn(push).catch(failed));
    },
    end: async () => {
      ending.abort();
      await pushes.underWay;
    },
  };
}

/** Adds the metrics of the delivery, one series for each cluster. */
export function addPushGauges(registry: Registry, outcomes: PushReport["outcomes"]): void {
  const gauge = (name: string, help: string, read: (outcome: PushOutcome) => number) =>
    Metrics.addReadSeries(registry, {
      type: "gauge",
      name,
      help,
      labelNames: ["cluster"],
      read: () =>
        outcomesByCluster(outcomes()).map((each) => [read(each), { cluster: each.cluster }]),
    });
  gauge(
    "rampart_push_bundle_sequence",
    "The trust bundle that was last delivered to a cluster.",
    ({ sequence }) => sequence,
  );
  gauge(
    "rampart_push_namespaces",
    "Namespaces of a cluster that should have the bundle; 0 until the cluster lists them.",
    ({ namespaces }) => namespaces,
  );
  gauge(
    "rampart_push_namespaces_delivered",
    "Namespaces of a cluster that have the bundle.",
    ({ delivered }) => delivered,
  );
  gauge(
    "rampart_push_delivered_since_timestamp",
    "When the last of them got the bundle, in Unix time.",
    ({ since }) => Metrics.unixTime(since),
  );
  gauge("rampart_push_delivered", "1 when all of them have the bundle.", ({ fault }) =>
    fault === undefined ? 1 : 0,
  );
}
