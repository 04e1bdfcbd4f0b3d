import { type Finding, finding } from "./finding.ts";

/** The namespaces of a cluster, by the content that they have. */
export interface DeliveryCounts {
  readonly cluster: string;
  /** Those that should have the content. */
  readonly namespaces: number;
  /** Those with an older or a foreign one. */
  readonly stale: number;
  /** Those with none. */
  readonly missing: number;
}

/** A cluster that nobody could look into. @param content Such as `roots`. */
export function notInspected(content: string, cluster: string, fault: string): Finding {
  const what = `The ${content} in ${cluster} were not looked at: ${fault}.`;
  return finding("cluster-not-inspected", what, "rampart doctor --kubeconfig <file>");
}

const rootDelivery = "Find out what delivers roots there: rampart authority plan";

/**
 * Findings about the trust bundles in a cluster.
 *
 * @param without The names of the first namespaces without one; empty where they are not known.
 */
export function rootFindings(
  { cluster, namespaces, stale, missing }: DeliveryCounts,
  without: readonly string[],
): readonly Finding[] {
  const names = without.length > 0 ? `: ${without.join(", ")}` : "";
  const more = without.length > 0 && missing > without.length ? ", …" : "";
  const staleWhat = `${stale} of ${namespaces} namespaces of ${cluster} have another trust bundle than the CA publishes.`;
  const missingWhat = `${missing} of ${namespaces} namespaces of ${cluster} have no trust bundle${names}${more}.`;
  return [
    ...(stale > 0 ? [finding("bundle-stale", staleWhat, rootDelivery)] : []),
    ...(missing > 0 ? [finding("bundle-missing", missingWhat, rootDelivery)] : []),
  ];
}

/** The namespaces of a cluster, by the CRLs that they have. */
export interface CrlCounts extends DeliveryCounts {
  /** Those with a CRL that has ended. */
  readonly ended: number;
}

const crlDelivery =
  "Read the lines crls-not-delivered and crls-emptied in the log of the CA, or of rampart distribute";
const crlEnd =
  "Start what delivers CRLs there (serve or rampart distribute), or delete the ConfigMaps istio-ca-crl";

/** Findings about the CRLs in a cluster. */
export function crlFindings(counts: CrlCounts): readonly Finding[] {
  const { cluster, namespaces, stale, missing, ended } = counts;
  const of = (count: number): string => `${count} of ${namespaces} namespaces`;
  return [
    ...(ended > 0
      ? [finding("crl-ended", `The CRLs in ${of(ended)} of ${cluster} have ended.`, crlEnd)]
      : []),
    ...(stale > 0
      ? [finding("crl-stale", `${of(stale)} of ${cluster} have old CRLs.`, crlDelivery)]
      : []),
    ...(missing > 0
      ? [finding("crl-missing", `${of(missing)} of ${cluster} have no CRLs.`, crlDelivery)]
      : []),
  ];
}
