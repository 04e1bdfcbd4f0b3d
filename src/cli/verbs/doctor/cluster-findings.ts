import { type Finding, finding } from "../../../ca/checkup/finding.ts";
import type { DeliveryReport } from "../root/delivery-report.ts";

const delivery = "Find out what delivers roots there: rampart authority plan";

/** Findings about the trust bundles in the clusters. */
export function clusterFindings(reports: readonly DeliveryReport[]): readonly Finding[] {
  return reports.flatMap((report) =>
    report.fault === undefined
      ? [...stale(report), ...missing(report)]
      : [notInspected(report, report.fault)],
  );
}

function notInspected({ cluster }: DeliveryReport, fault: string): Finding {
  const what = `The roots in ${cluster} were not looked at: ${fault}.`;
  return finding("cluster-not-inspected", what, "rampart doctor --kubeconfig <file>");
}

function stale({ cluster, bundles, namespaces }: DeliveryReport): Finding[] {
  const others = bundles.filter(({ isCurrent }) => isCurrent === false);
  const count = others.reduce((sum, each) => sum + each.namespaces, 0);
  if (count === 0) return [];
  const what = `${count} of ${namespaces} namespaces of ${cluster} have another trust bundle than the CA publishes.`;
  return [finding("bundle-stale", what, delivery)];
}

function missing({ cluster, namespaces, withoutBundle, without }: DeliveryReport): Finding[] {
  if (withoutBundle === 0) return [];
  const names = `${without.join(", ")}${withoutBundle > without.length ? ", …" : ""}`;
  const what = `${withoutBundle} of ${namespaces} namespaces of ${cluster} have no trust bundle: ${names}.`;
  return [finding("bundle-missing", what, delivery)];
}
