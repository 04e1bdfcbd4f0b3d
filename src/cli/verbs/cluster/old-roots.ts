import type { AuthorityView } from "../../../ca/authority-view.ts";
import type { OpenedStore } from "../../../ca/opened-store.ts";
import { SigningAuthority } from "../../../pki/authority/signing-authority.ts";
import { Taint } from "../../../pki/authority/taint.ts";
import { TrustBundle } from "../../../pki/authority/trust-bundle.ts";
import { Base64 } from "../../../pki/encoding/base64.ts";
import { fingerprintOf } from "../../../pki/encoding/bytes.ts";
import { formatTable } from "../../terminal/table.ts";
import type { Screen } from "../../terminal/terminal.ts";
import { formatInstant, shortId } from "../../terminal/text.ts";
import type { ClusterInspection } from "./cluster-inspection.ts";
import { byRoots } from "./delivery-report.ts";

/** A root that clusters still have, although no authority signs under it now or next. */
export interface OldRoot {
  readonly sha256: string;
  /** When it leaves the CA's bundle; `undefined` if the bundle lacks it. */
  readonly leavesAt: Date | undefined;
  /** How many namespaces of each cluster have it. */
  readonly clusters: Readonly<Record<string, number>>;
}

/**
 * Lists the old roots in clusters: those that will leave the bundle, and those that it lacks.
 * @param currentView Reads the bundle; if it cannot, no root that the bundle lacks is listed.
 */
export async function oldRoots(
  { openAuthorities, additionalRoots, taints }: OpenedStore,
  inspections: readonly ClusterInspection[],
  currentView: () => Promise<AuthorityView | undefined>,
  now: Date,
): Promise<readonly OldRoot[]> {
  const hasAny = inspections.some(({ roots }) => typeof roots !== "string");
  const view = hasAny ? await currentView() : undefined;
  const published = view && new Set(view.trustBundle.roots.map(Base64.format));
  const own = openAuthorities.map(({ authority }) => authority);
  const records = [...own, ...Taint.apply(additionalRoots, taints)];
  const leaving = new Map(
    TrustBundle.authoritiesAt(records, now).flatMap(({ roots, schedule }) =>
      roots.map((root) => [Base64.format(root), schedule.retiresAt] as const),
    ),
  );
  const signing = [SigningAuthority.at(own, now), SigningAuthority.nextAt(own, now)];
  const used = signing.flatMap((each) => each?.roots ?? []).map(Base64.format);
  const old = new Map<string, OldRoot>();
  for (const [root, cluster, having] of inspections.flatMap(rootsOf)) {
    const der = Base64.parse(root);
    const isOld = leaving.has(root) ? !used.includes(root) : published?.has(root) === false;
    if (!der || !isOld) continue;
    const clusters: OldRoot["clusters"] = old.get(root)?.clusters ?? {};
    const counted = { ...clusters, [cluster]: (clusters[cluster] ?? 0) + having };
    old.set(root, { sha256: fingerprintOf(der), leavesAt: leaving.get(root), clusters: counted });
  }
  return [...old.values()];
}

const rootsOf = ({ cluster, roots: found }: ClusterInspection) =>
  typeof found === "string"
    ? []
    : byRoots(found).flatMap(({ roots, same }) =>
        [...roots].map((root) => [root, cluster, same.length] as const),
      );

const maximumRows = 20;

/** Formats a table of the first twenty old roots, and says what it cannot show. */
export function formatOldRoots(screen: Screen, roots: readonly OldRoot[]): string {
  const rows = roots.slice(0, maximumRows).map(({ sha256, leavesAt, clusters }) => [
    shortId(sha256),
    leavesAt ? formatInstant(leavesAt) : "not in it",
    Object.entries(clusters)
      .map(([cluster, having]) => `${cluster} (${having})`)
      .join(", "),
  ]);
  const table = formatTable(screen, ["OLD ROOT", "IN BUNDLE UNTIL", "NAMESPACES WITH IT"], rows);
  return `${table}\nWho has an unexpired certificate of another CA under such a root, only that CA can tell.`;
}
