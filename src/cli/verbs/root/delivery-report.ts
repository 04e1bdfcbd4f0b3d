import { latest } from "../../../delivery/push-to-cluster.ts";
import { type HeldRoots, holds } from "../../../kubernetes/root-config-map.ts";
import type { NumberedBundle } from "../../../pki/authority/trust-bundle.ts";
import type { Screen } from "../../terminal/screen.ts";
import { formatTable } from "../../terminal/table.ts";
import { formatInstant } from "../../terminal/text.ts";
import type { ClusterInspection } from "../cluster/cluster-inspection.ts";

/** One content of the root ConfigMaps in a cluster. */
export interface DeliveredBundle {
  /** The sequence that its writer noted; the CA's own for the current bundle. */
  readonly sequence: number | undefined;
  /** Whether the CA publishes it now; `undefined` if that is not known. */
  readonly isCurrent: boolean | undefined;
  readonly namespaces: number;
  /** When the last namespace got it, as its writer noted. */
  readonly since: Date | undefined;
}

/** The bundles that a cluster has. */
export interface DeliveryReport {
  readonly cluster: string;
  readonly issuer: string | undefined;
  /** Why the cluster cannot be inspected. */
  readonly fault: string | undefined;
  /** The number of namespaces that should have a bundle. */
  readonly namespaces: number;
  /** The current one first. */
  readonly bundles: readonly DeliveredBundle[];
  readonly withoutBundle: number;
  /** The names of the first ones. */
  readonly without: readonly string[];
}

const maximumNames = 10;

/** @param currentBundle The bundle that the CA publishes now; called only if a cluster was inspected. */
export async function reportDeliveries(
  inspections: readonly ClusterInspection[],
  currentBundle: () => Promise<NumberedBundle | undefined>,
): Promise<DeliveryReport[]> {
  const hasInspected = inspections.some(({ roots }) => typeof roots !== "string");
  const bundle = hasInspected ? await currentBundle() : undefined;
  return inspections.map((each) => reportDelivery(each, bundle));
}

export function reportDelivery(
  { cluster, issuer, roots }: ClusterInspection,
  bundle: NumberedBundle | undefined,
): DeliveryReport {
  if (typeof roots === "string") {
    const nothing = { namespaces: 0, bundles: [], withoutBundle: 0, without: [] };
    return { cluster, issuer, fault: roots, ...nothing };
  }
  const { namespaces, held } = roots;
  const found = namespaces.flatMap((each) => held.get(each) ?? []).filter(({ pem }) => pem !== "");
  const without = namespaces.filter((each) => !held.get(each)?.pem);
  const contents = Map.groupBy(found, ({ pem }) => pem);
  const bundles = [...contents.values()].map((each) => bundleOf(each, bundle));
  return {
    cluster,
    issuer,
    fault: undefined,
    namespaces: namespaces.length,
    bundles: bundles.toSorted(
      (a, b) => Number(b.isCurrent ?? 0) - Number(a.isCurrent ?? 0) || b.namespaces - a.namespaces,
    ),
    withoutBundle: without.length,
    without: without.slice(0, maximumNames),
  };
}

function bundleOf(same: readonly HeldRoots[], bundle: NumberedBundle | undefined): DeliveredBundle {
  const isCurrent = bundle && holds(same[0], bundle);
  const noted = same.flatMap(({ sequence }) => sequence ?? []);
  const highest = noted.length > 0 ? Math.max(...noted) : undefined;
  return {
    sequence: isCurrent ? bundle.sequence : highest,
    isCurrent,
    namespaces: same.length,
    since: latest(same.map(({ deliveredAt }) => deliveredAt)),
  };
}

/** A table with a row for each content of a cluster: a cluster with one row is consistent. */
export function formatDeliveries(screen: Screen, reports: readonly DeliveryReport[]): string {
  const rows = reports.flatMap((report) => {
    const { cluster, fault, namespaces, withoutBundle, without } = report;
    if (fault !== undefined) return [[cluster, "-", "-", "-", `cannot be inspected: ${fault}`]];
    const some = report.bundles.map((each) => [
      cluster,
      nameOf(each),
      `${each.namespaces} of ${namespaces}`,
      each.since ? formatInstant(each.since) : "-",
    ]);
    if (withoutBundle === 0) return some;
    const more = withoutBundle > without.length ? ", …" : "";
    const lacking = [cluster, "none", `${withoutBundle} of ${namespaces}`, "-"];
    return [...some, [...lacking, `${without.join(", ")}${more}`]];
  });
  return formatTable(screen, ["CLUSTER", "BUNDLE", "NAMESPACES", "SINCE", ""], rows, [""]);
}

function nameOf({ sequence, isCurrent }: DeliveredBundle): string {
  const name = sequence === undefined ? "unnumbered" : `${sequence}`;
  if (isCurrent === undefined) return name;
  return `${name}, ${isCurrent ? "current" : "another"}`;
}
