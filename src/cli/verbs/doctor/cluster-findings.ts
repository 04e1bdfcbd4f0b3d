import { notInspected, rootFindings } from "../../../status/clusters.ts";
import type { Finding } from "../../../status/finding.ts";
import type { DeliveryReport } from "../cluster/delivery-report.ts";

/** Findings about the trust bundles in the clusters. */
export function clusterFindings(reports: readonly DeliveryReport[]): readonly Finding[] {
  return reports.flatMap(({ cluster, fault, namespaces, bundles, withoutBundle, without }) => {
    if (fault !== undefined) return [notInspected("roots", cluster, fault)];
    const others = bundles.filter(({ isCurrent }) => isCurrent === false);
    const stale = others.reduce((sum, each) => sum + each.namespaces, 0);
    return rootFindings({ cluster, namespaces, stale, missing: withoutBundle }, without);
  });
}
