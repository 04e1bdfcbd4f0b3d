import type { AuthorityView } from "../../../ca/authority-view.ts";
import type { OpenedStore } from "../../../ca/opened-store.ts";
import { PushOutcome } from "../../../delivery/push-to-cluster.ts";
import { type ClusterRoots, HeldRoots } from "../../../delivery/root-config-map.ts";
import { SigningAuthority } from "../../../pki/authority/signing-authority.ts";
import type { NumberedBundle } from "../../../pki/authority/trust-bundle.ts";
import { Base64 } from "../../../pki/encoding/base64.ts";
import { Pem } from "../../../pki/encoding/pem.ts";
import { formatTable } from "../../terminal/table.ts";
import type { Screen } from "../../terminal/terminal.ts";
import { formatInstant, shortId } from "../../terminal/text.ts";
import type { ClusterInspection } from "./cluster-inspection.ts";

type DeliveredBundle = ReturnType<typeof bundleOf>;

/** The trust bundles in the namespaces of a cluster. */
export interface DeliveryReport {
  readonly cluster: string;
  readonly issuer: string | undefined;
  /** Why the cluster cannot be inspected; `undefined` if it can. */
  readonly fault: string | undefined;
  /** The number of namespaces that should have a bundle. */
  readonly namespaces: number;
  /** The different bundles, the current one first. */
  readonly bundles: readonly DeliveredBundle[];
  /** The number of namespaces without a bundle. */
  readonly withoutBundle: number;
  /** The names of the first ten namespaces without a bundle. */
  readonly without: readonly string[];
  /** How many of `withoutBundle` have a ConfigMap without roots or without Istio's label. */
  readonly unread: number;
}

const maximumNames = 10;

/**
 * Compares the trust bundle that each cluster has with the CA's.
 * @param currentView Reads the CA's authorities; called only if a cluster was inspected.
 */
export async function reportDeliveries(
  inspections: readonly ClusterInspection[],
  currentView: () => Promise<AuthorityView | undefined>,
): Promise<DeliveryReport[]> {
  const hasInspected = inspections.some(({ roots }) => typeof roots !== "string");
  const view = hasInspected ? await currentView() : undefined;
  const hasRoots = view && view.trustBundle.roots.length > 0;
  const bundle = hasRoots ? { pem: view.trustBundle.pem, sequence: view.sequence } : undefined;
  return inspections.map((each) => reportDelivery(each, bundle));
}

/**
 * Compares the trust bundles of one cluster with the CA's. If `bundle` is `undefined`, none of them is known to be
 * current.
 */
export function reportDelivery(
  { cluster, issuer, roots }: ClusterInspection,
  bundle: NumberedBundle | undefined,
): DeliveryReport {
  if (typeof roots === "string") {
    const nothing = { namespaces: 0, bundles: [], withoutBundle: 0, without: [], unread: 0 };
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
    unread: without.filter((each) => held.has(each)).length,
  };
}

/** Describes one bundle by the ConfigMaps that have it. */
function bundleOf(same: readonly HeldRoots[], bundle: NumberedBundle | undefined) {
  const isCurrent = bundle && HeldRoots.hold(same[0], bundle);
  const noted = same.flatMap(({ sequence }) => sequence ?? []);
  const highest = noted.length > 0 ? Math.max(...noted) : undefined;
  return {
    /** The sequence that its writer recorded; the CA's own for the current bundle. */
    sequence: isCurrent ? bundle.sequence : highest,
    /** Whether the CA publishes it now; `undefined` if that is not known. */
    isCurrent,
    namespaces: same.length,
    /** When the last namespace got it, as its writer recorded. */
    since: PushOutcome.latest(same.map(({ deliveredAt }) => deliveredAt)),
  };
}

/**
 * Formats a table with a row for each bundle that namespaces of a cluster have, and one for the namespaces without a
 * bundle. A cluster that cannot be inspected has one row, with the fault.
 */
export function formatDeliveries(screen: Screen, reports: readonly DeliveryReport[]): string {
  const rows = reports.flatMap((report) => {
    const { cluster, fault, namespaces, withoutBundle, without, unread } = report;
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
    const note = unread > 0 ? ` (${unread} not labelled istio.io/config=true, or empty)` : "";
    return [...some, [...lacking, `${without.join(", ")}${more}${note}`]];
  });
  return formatTable(screen, ["CLUSTER", "BUNDLE", "NAMESPACES", "SINCE", ""], rows, [""]);
}

function nameOf({ sequence, isCurrent }: DeliveredBundle): string {
  const name = sequence === undefined ? "unnumbered" : `${sequence}`;
  if (isCurrent === undefined) return name;
  return `${name}, ${isCurrent ? "current" : "another"}`;
}

/** Which clusters have the root of an authority. */
export type RootReach = NonNullable<ReturnType<typeof rootReach>>;

/** The namespaces of one cluster that have the root. */
interface ClusterReach {
  readonly cluster: string;
  /** Why the cluster cannot be inspected; `undefined` if it can. */
  readonly fault: string | undefined;
  readonly namespaces: number;
  readonly having: number;
  /** The names of the first namespaces that lack it. */
  readonly lacking: readonly string[];
}

/**
 * Finds which clusters have the root of the authority that signs next or, without a successor, of the one that signs
 * now.
 * @returns `undefined` if none signs now or next.
 */
export function rootReach(
  { openAuthorities }: OpenedStore,
  inspections: readonly ClusterInspection[],
  now: Date,
) {
  const authorities = openAuthorities.map(({ authority }) => authority);
  const next = SigningAuthority.nextAt(authorities, now);
  const authority = next ?? SigningAuthority.at(authorities, now);
  if (!authority) return undefined;
  const roots = authority.roots.map(Base64.format);
  const clusters = inspections.map((each) => reachIn(each, roots));
  const lacks = clusters.some(({ namespaces, having }) => having < namespaces);
  const isKnown = clusters.every(({ fault }) => fault === undefined);
  return {
    authority: authority.id,
    /** Whether it signs next, or now because its successor is not minted yet. */
    signs: next ? ("next" as const) : ("now" as const),
    signsFrom: authority.schedule.signsFrom,
    clusters,
    /**
     * Whether all namespaces have the root; `undefined` if none is known to lack it, but a cluster cannot be inspected.
     */
    isEverywhere: lacks ? false : isKnown ? true : undefined,
  };
}

function reachIn(
  { cluster, roots: found }: ClusterInspection,
  roots: readonly string[],
): ClusterReach {
  if (typeof found === "string") {
    return { cluster, fault: found, namespaces: 0, having: 0, lacking: [] };
  }
  const { namespaces } = found;
  const lacking = byRoots(found).flatMap((each) =>
    roots.every((root) => each.roots.has(root)) ? [] : each.same,
  );
  return {
    cluster,
    fault: undefined,
    namespaces: namespaces.length,
    having: namespaces.length - lacking.length,
    lacking: lacking.slice(0, maximumNames),
  };
}

/**
 * Groups namespaces by the text that they hold, and reads the roots (base64) of each text, whatever its line breaks, as
 * long as the boundaries have lines of their own. YAML's `>` folds base64 onto such a line, and no proxy reads that.
 */
export function byRoots({ namespaces, held }: ClusterRoots<HeldRoots>) {
  const byPem = Map.groupBy(namespaces, (namespace) => held.get(namespace)?.pem ?? "");
  return [...byPem].map(([pem, same]) => ({ roots: new Set(Pem.certificates(pem)), same }));
}

/** Says in sentences whether the root of the next authority has reached every cluster. */
export function formatReach(reach: RootReach): string {
  const { authority, signs, signsFrom, isEverywhere, clusters } = reach;
  const when =
    signs === "next"
      ? `signs next, from ${formatInstant(signsFrom)}`
      : "signs now, and its successor is not minted yet";
  const verdicts = new Map([
    [true, "its root is everywhere"],
    [false, "its root is not everywhere"],
    [undefined, "it is not known whether its root is everywhere"],
  ]);
  const heading = `${shortId(authority)} ${when}: ${verdicts.get(isEverywhere)}`;
  return [heading, ...clusters.map(sentence)].join("\n  ");
}

function sentence({ cluster, fault, namespaces, having, lacking }: ClusterReach): string {
  if (fault !== undefined) return `${cluster} cannot be inspected: ${fault}`;
  const more = namespaces - having > lacking.length ? ", …" : "";
  const which = lacking.length > 0 ? `, not in ${lacking.join(", ")}${more}` : "";
  return `its root is in ${having} of ${namespaces} namespaces of ${cluster}${which}`;
}
