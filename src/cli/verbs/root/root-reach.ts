import type { OpenedStore } from "../../../ca/opened-store.ts";
import {
  nextSigningAuthority,
  signingAuthorityAt,
} from "../../../pki/authority/signing-authority.ts";
import { toBase64 } from "../../../pki/encoding/base64.ts";
import { certificateBlocks } from "../../../pki/encoding/pem.ts";
import { formatInstant } from "../../terminal/text.ts";
import { shortId } from "../authority/authority-report.ts";
import type { ClusterInspection } from "../cluster/cluster-inspection.ts";

/** The clusters that have the root of an authority. */
export interface RootReach {
  readonly authority: string;
  /** `now` if its successor is not minted yet. */
  readonly signs: "next" | "now";
  readonly signsFrom: Date;
  readonly clusters: readonly ClusterReach[];
  /** `undefined` if no cluster is known to lack it and one cannot be inspected. */
  readonly isEverywhere: boolean | undefined;
}

/** The namespaces of one cluster that have it. */
export interface ClusterReach {
  readonly cluster: string;
  /** Why the cluster cannot be inspected. */
  readonly fault: string | undefined;
  readonly namespaces: number;
  readonly having: number;
  /** The names of the first namespaces that lack it. */
  readonly lacking: readonly string[];
}

const maximumNames = 10;

/** The reach of the authority that signs next or, without a successor, of the one that signs now. */
export function rootReach(
  { issuers }: OpenedStore,
  inspections: readonly ClusterInspection[],
  now: Date,
): RootReach | undefined {
  const authorities = issuers.map(({ authority }) => authority);
  const next = nextSigningAuthority(authorities, now);
  const authority = next ?? signingAuthorityAt(authorities, now);
  if (!authority) return undefined;
  const roots = authority.roots.map(toBase64);
  const clusters = inspections.map((each) => reachIn(each, roots));
  const lacks = clusters.some(({ namespaces, having }) => having < namespaces);
  const isKnown = clusters.every(({ fault }) => fault === undefined);
  return {
    authority: authority.id,
    signs: next ? "next" : "now",
    signsFrom: authority.schedule.signsFrom,
    clusters,
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
  const { namespaces, held } = found;
  const verdicts = new Map<string, boolean>();
  const lacking = namespaces.filter((namespace) => {
    const pem = held.get(namespace)?.pem ?? "";
    const has = verdicts.get(pem) ?? hasAll(pem, roots);
    verdicts.set(pem, has);
    return !has;
  });
  return {
    cluster,
    fault: undefined,
    namespaces: namespaces.length,
    having: namespaces.length - lacking.length,
    lacking: lacking.slice(0, maximumNames),
  };
}

/**
 * Whether a PEM text holds all roots. Another writer may break lines elsewhere, which every proxy reads; no
 * proxy reads base64 on the line of its boundary, as YAML's `>` folds it.
 */
function hasAll(pem: string, roots: readonly string[]): boolean {
  const present = new Set(certificateBlocks(pem));
  return roots.every((root) => present.has(root));
}

/** The reach in sentences. */
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
