import { latest } from "../../delivery/push-to-cluster.ts";
import { type HeldRoots, holds } from "../../kubernetes/root-config-map.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import type { ClusterInspection } from "../cluster/cluster-inspection.ts";
import { formatInstant, formatTable } from "../terminal/table.ts";

/** One content of the roots in a cluster. */
export interface DeliveredBundle {
  /** As its writer noted it; of the CA's own bundle, as it is. */
  readonly sequence: number | undefined;
  /** Whether it is the one that the CA publishes now; nothing where that is not known. */
  readonly isCurrent: boolean | undefined;
  readonly namespaces: number;
  /** When the last of them got it, as its writer noted it. */
  readonly since: Date | undefined;
}

/** Which bundle a cluster has. */
export interface DeliveryReport {
  readonly cluster: string;
  readonly issuer: string | undefined;
  /** Why it cannot be asked. */
  readonly fault: string | undefined;
  /** That should have one. */
  readonly namespaces: number;
  /** The current one first. */
  readonly bundles: readonly DeliveredBundle[];
  readonly withoutBundle: number;
  /** The first of those. */
  readonly without: readonly string[];
}

const namedWithout = 10;

/** @param currentBundle What the CA publishes now, where that is known; not asked for where no cluster is seen. */
export async function reportDeliveries(
  sights: readonly ClusterInspection[],
  currentBundle: () => Promise<NumberedBundle | undefined>,
): Promise<DeliveryReport[]> {
  const isAnySeen = sights.some(({ roots }) => typeof roots !== "string");
  const bundle = isAnySeen ? await currentBundle() : undefined;
  return sights.map((sight) => reportDelivery(sight, bundle));
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
    without: without.slice(0, namedWithout),
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

/** A cluster takes a row for each content, so that all is well where it has one. */
export function formatDeliveries(reports: readonly DeliveryReport[]): string {
  const rows = reports.flatMap((report) => {
    const { cluster, fault, namespaces, withoutBundle, without } = report;
    if (fault !== undefined) return [[cluster, "-", "-", "-", `cannot be asked: ${fault}`]];
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
  return formatTable(["CLUSTER", "BUNDLE", "NAMESPACES", "SINCE", ""], rows);
}

function nameOf({ sequence, isCurrent }: DeliveredBundle): string {
  const name = sequence === undefined ? "without a number" : `${sequence}`;
  if (isCurrent === undefined) return name;
  return `${name}, ${isCurrent ? "current" : "another"}`;
}
