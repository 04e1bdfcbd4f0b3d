import type { TokenIssuer } from "../authn/token-issuer.ts";
import type { PushReport } from "../delivery/cluster-push.ts";
import { outcomesByCluster } from "../delivery/outcomes-by-cluster.ts";
import type { PushOutcome } from "../delivery/push-to-cluster.ts";
import { Finding } from "./finding.ts";

/** The delivery of the roots to one cluster. */
export interface ClusterStatus {
  readonly name: string;
  readonly delivery: Delivery;
  /** Absent unless this process has pushed to the cluster. */
  readonly progress?: Pick<
    PushOutcome,
    "sequence" | "namespaces" | "delivered" | "since" | "fault"
  >;
}

/**
 * - `elsewhere`: this CA does not deliver there; `rampart distribute` in the cluster may.
 * - `unknown`: this CA delivers there, and this process does not know how far it has come.
 * - `complete`: every namespace has the current bundle.
 */
type Delivery = "elsewhere" | "unknown" | "complete" | "pending" | "failed";

/** The longest fault that is shown. */
const longestFault = 500;

/**
 * How far the roots have come in each cluster that an issuer or a push names, by what this process has pushed:
 * `elsewhere` if it pushes nothing there, `unknown` until its first push there has an outcome.
 */
export function clusterStatuses(
  issuers: readonly TokenIssuer[],
  { clusters, outcomes }: PushReport,
  sequence: number,
): readonly ClusterStatus[] {
  const last = new Map(outcomesByCluster(outcomes()).map((each) => [each.cluster, each]));
  const names = new Set([...issuers.map(({ cluster }) => cluster), ...clusters]);
  return [...names].map((name) => {
    const outcome = last.get(name);
    if (!outcome) return { name, delivery: clusters.includes(name) ? "unknown" : "elsewhere" };
    const fault = outcome.fault?.slice(0, longestFault);
    return { name, delivery: deliveryOf(outcome, sequence), progress: { ...outcome, fault } };
  });
}

function deliveryOf(outcome: PushOutcome, sequence: number): Delivery {
  if (outcome.fault !== undefined) return "failed";
  const isCurrent = outcome.sequence === sequence && outcome.delivered === outcome.namespaces;
  return isCurrent ? "complete" : "pending";
}

/**
 * Findings about the roots that a process has pushed. Its counts for another sequence than the current one are ignored,
 * so after a rotation there are none until the next push.
 *
 * @param sequence Of the current bundle; `undefined` if it is unknown.
 */
export function pushedRootFindings(
  outcomes: Iterable<PushOutcome>,
  sequence: number | undefined,
): readonly Finding[] {
  return outcomesByCluster(outcomes).flatMap((outcome) => {
    const current =
      outcome.sequence === sequence ? ClusterFindings.roots(countsOf(outcome), []) : [];
    return uninspected("roots", outcome) ?? current;
  });
}

/** Findings about the CRLs that a process has pushed. `crl-ended` is never among them, because a push does not record which CRLs have expired. */
export function pushedCrlFindings(outcomes: Iterable<PushOutcome>): readonly Finding[] {
  return outcomesByCluster(outcomes).flatMap(
    (outcome) =>
      uninspected("CRLs", outcome) ?? ClusterFindings.crls({ ...countsOf(outcome), ended: 0 }),
  );
}

/** The finding about a cluster whose namespaces no push could list; `undefined` if one could. */
function uninspected(
  what: "roots" | "CRLs",
  { cluster, namespaces, fault }: PushOutcome,
): readonly Finding[] | undefined {
  if (fault === undefined || namespaces > 0) return undefined;
  return [ClusterFindings.away(what, cluster, fault)];
}

/** Creates findings about clusters. */
export const ClusterFindings = {
  /** A finding about a cluster whose API server did not return the content. @param content Such as `roots`. */
  away(content: string, cluster: string, fault: string): Finding {
    const what = `The ${content} in ${cluster} cannot be looked at: ${fault}.`;
    return Finding.of(
      "cluster-away",
      what,
      "Look whether this machine reaches the API server of its table in ISSUERS",
    );
  },

  /**
   * Findings about the trust bundles in a cluster.
   *
   * @param without The first namespaces without one; empty if they are unknown.
   */
  roots(
    { cluster, namespaces, stale, missing }: DeliveryCounts,
    without: readonly string[],
  ): readonly Finding[] {
    const names = without.length > 0 ? `: ${without.join(", ")}` : "";
    const more = without.length > 0 && missing > without.length ? ", …" : "";
    const staleWhat = `${stale} of ${namespaces} namespaces of ${cluster} have another trust bundle than the CA publishes.`;
    const missingWhat = `${missing} of ${namespaces} namespaces of ${cluster} have no trust bundle${names}${more}.`;
    return [
      ...(stale > 0 ? [Finding.of("bundle-stale", staleWhat, rootDelivery)] : []),
      ...(missing > 0 ? [Finding.of("bundle-missing", missingWhat, rootDelivery)] : []),
    ];
  },

  /** Findings about CRLs in a cluster that have expired, are outdated or are missing. */
  crls(counts: CrlCounts): readonly Finding[] {
    const { cluster, namespaces, stale, missing, ended } = counts;
    const of = (count: number): string => `${count} of ${namespaces} namespaces`;
    return [
      ...(ended > 0
        ? [Finding.of("crl-ended", `The CRLs in ${of(ended)} of ${cluster} have ended.`, crlEnd)]
        : []),
      ...(stale > 0
        ? [Finding.of("crl-stale", `${of(stale)} of ${cluster} have old CRLs.`, crlDelivery)]
        : []),
      ...(missing > 0
        ? [Finding.of("crl-missing", `${of(missing)} of ${cluster} have no CRLs.`, crlDelivery)]
        : []),
    ];
  },
};

function countsOf({ cluster, namespaces, delivered, missing }: PushOutcome): DeliveryCounts {
  return { cluster, namespaces, stale: namespaces - delivered - missing, missing };
}

/** The namespaces of a cluster, by the content that they have. */
interface DeliveryCounts {
  readonly cluster: string;
  /** The namespaces that should have the content. */
  readonly namespaces: number;
  /** The namespaces with an older or another content. */
  readonly stale: number;
  /** The namespaces without any content. */
  readonly missing: number;
}

const rootDelivery = "Find out what delivers roots there: `rampart authority plan`";

/** The namespaces of a cluster, by the CRLs that they have. */
interface CrlCounts extends DeliveryCounts {
  /** The namespaces with a CRL that has expired. */
  readonly ended: number;
}

const crlDelivery =
  "Read the lines crls-not-delivered and crls-emptied in the log of the CA, or of rampart distribute";
const crlEnd =
  "Start what delivers CRLs there (serve or rampart distribute), or delete the ConfigMaps istio-ca-crl";
