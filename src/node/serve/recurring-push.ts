import { Gauge, type Registry } from "prom-client";
import { crlTargets, rootTargets } from "../../compose/root-targets.ts";
import type { Configuration } from "../../config/configuration.ts";
import { crlContent } from "../../delivery/crl-content.ts";
import { outcomesByCluster } from "../../delivery/outcomes-by-cluster.ts";
import type { PushLimits } from "../../delivery/push-budget.ts";
import type { PushOutcome } from "../../delivery/push-to-cluster.ts";
import { createRootPush, type RootPush, trustBundleContent } from "../../delivery/root-push.ts";
import { logFault } from "../../foundation/fault-log.ts";
import { fetchTrusting } from "../../host/http/node-fetch.ts";
import type { CertificateAuthority } from "../../transport/certificate-authority.ts";
import type { ServerContext } from "../server.ts";
import type { ReplicaStores } from "../stores/stores.ts";

/** The delivery of roots to the clusters of the configuration. */
export interface RecurringPush extends Pick<RootPush, "clusters" | "outcomes"> {
  /** The CRLs, which follow the roots. */
  readonly crls: Pick<RootPush, "outcomes">;
  /** Starts a run, unless one is under way. */
  readonly begin: () => void;
  /** Aborts the current run. The next process continues it. */
  readonly end: () => Promise<void>;
}

/** The CA whose roots and CRLs are delivered. */
interface PushSource extends Pick<CertificateAuthority, "crls"> {
  readonly issuance: Pick<CertificateAuthority["issuance"], "authorities">;
}

/** A run ends before the next rotation starts another, a minute later. */
const limits: PushLimits = {
  requests: 10_000,
  seconds: 50,
  clustersAtOnce: 8,
  writesAtOnce: 8,
};

/** @throws ConfigurationError */
export function pushRoots(
  configuration: Configuration,
  { issuance, crls }: PushSource,
  { log, clock, fetchTimeoutMilliseconds }: ServerContext,
  inTurn: ReplicaStores["pushInTurn"],
): RecurringPush {
  const { authorities } = issuance;
  const fetching = { fetchTrusting, fetchTimeoutMilliseconds };
  const targets = rootTargets(configuration, fetching);
  const push = createRootPush({ targets, content: trustBundleContent(authorities), limits, log });
  const listTargets = crlTargets(configuration, fetching);
  const crlPush = createRootPush({
    targets: listTargets,
    content: crlContent(crls, authorities, log),
    limits,
    log,
  });
  const ending = new AbortController();
  let current: Promise<unknown> | undefined;
  return {
    ...push,
    crls: crlPush,
    begin: () => {
      if (ending.signal.aborted || (targets.length === 0 && listTargets.length === 0)) return;
      const { signal } = ending;
      current ??= inTurn(async () => {
        // Another replica may have delivered more than this one had read before its turn.
        await authorities.renew(clock());
        await Promise.all([push.deliver(clock(), signal), crlPush.deliver(clock(), signal)]);
      })
        .catch((error: unknown) => logFault(log, "roots-not-delivered", error))
        .finally(() => {
          current = undefined;
        });
    },
    end: async () => {
      ending.abort();
      await current;
    },
  };
}

/** Adds gauges of the push that is current. */
export function addPushGauges(registry: Registry, outcomes: RootPush["outcomes"]): void {
  const gauge = (name: string, help: string, read: (outcome: PushOutcome) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ["cluster"],
      registers: [registry],
      collect() {
        // A cluster may have left.
        this.reset();
        for (const outcome of outcomesByCluster(outcomes())) {
          this.set({ cluster: outcome.cluster }, read(outcome));
        }
      },
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
    ({ since }) => (since ? since.getTime() / 1000 : Number.NaN),
  );
  gauge("rampart_push_delivered", "1 when all of them have the bundle.", ({ fault }) =>
    fault === undefined ? 1 : 0,
  );
}
