import type { OpenedStore } from "../../ca/opened-store.ts";
import {
  type SigningAuthority,
  signingAuthorityAt,
} from "../../pki/authority/signing-authority.ts";
import { toBase64 } from "../../pki/encoding/base64.ts";
import { shortId } from "../authority/authority-report.ts";
import type { ClusterInspection } from "../cluster/cluster-inspection.ts";
import { formatInstant } from "../terminal/table.ts";

/** How far the root of an authority has come. */
export interface RootReach {
  readonly authority: string;
  /** `now` where its successor is not minted yet. */
  readonly signs: "next" | "now";
  readonly signsFrom: Date;
  readonly clusters: readonly ClusterReach[];
  /** Nothing while a cluster cannot be asked, and none of the others lacks it. */
  readonly isEverywhere: boolean | undefined;
}

/** How far it has come in one cluster. */
export interface ClusterReach {
  readonly cluster: string;
  /** Why it cannot be asked. */
  readonly fault: string | undefined;
  readonly namespaces: number;
  readonly having: number;
  /** The first of those that lack it. */
  readonly lacking: readonly string[];
}

const namedLacking = 10;

/** Of the authority that signs next, or now, if any. */
export function rootReach(
  { issuers }: OpenedStore,
  sights: readonly ClusterInspection[],
  now: Date,
): RootReach | undefined {
  const authorities = issuers.map(({ authority }) => authority);
  const next = nextToSign(authorities, now);
  const authority = next ?? signingAuthorityAt(authorities, now);
  if (!authority) return undefined;
  const roots = authority.roots.map(toBase64);
  const clusters = sights.map((sight) => reachIn(sight, roots));
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

/** A taint may leave an authority nothing to sign. */
function nextToSign(
  authorities: readonly SigningAuthority[],
  now: Date,
): SigningAuthority | undefined {
  return authorities
    .filter(({ schedule }) => schedule.signsFrom > now && schedule.signsFrom < schedule.signsUntil)
    .toSorted((a, b) => a.schedule.signsFrom.getTime() - b.schedule.signsFrom.getTime())[0];
}

function reachIn(
  { cluster, roots: seen }: ClusterInspection,
  roots: readonly string[],
): ClusterReach {
  if (typeof seen === "string") {
    return { cluster, fault: seen, namespaces: 0, having: 0, lacking: [] };
  }
  const { namespaces, held } = seen;
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
    lacking: lacking.slice(0, namedLacking),
  };
}

const block =
  /^-----BEGIN CERTIFICATE-----[ \t]*\r?\n([A-Za-z0-9+/=\s]+)\n-----END CERTIFICATE-----[ \t]*\r?$/gm;

/**
 * However the lines are broken: whoever else delivers may break them otherwise. That they are not broken at
 * all, as by a `>` of YAML, no proxy reads.
 */
function hasAll(pem: string, roots: readonly string[]): boolean {
  const there = new Set([...pem.matchAll(block)].map(([, text = ""]) => text.replace(/\s/g, "")));
  return roots.every((root) => there.has(root));
}

/** The same in sentences. */
export function formatReach(reach: RootReach): string {
  const { authority, signs, signsFrom, isEverywhere, clusters } = reach;
  const when =
    signs === "next"
      ? `signs next, from ${formatInstant(signsFrom)}`
      : "signs now, and who signs next is not minted yet";
  const verdicts = new Map([
    [true, "its root is everywhere"],
    [false, "its root is not everywhere"],
    [undefined, "whether its root is everywhere is not known"],
  ]);
  const heading = `${shortId(authority)} ${when}: ${verdicts.get(isEverywhere)}`;
  return [heading, ...clusters.map(sentence)].join("\n  ");
}

function sentence({ cluster, fault, namespaces, having, lacking }: ClusterReach): string {
  if (fault !== undefined) return `${cluster} cannot be asked: ${fault}`;
  const more = namespaces - having > lacking.length ? ", …" : "";
  const which = lacking.length > 0 ? `, not in ${lacking.join(", ")}${more}` : "";
  return `its root is in ${having} of ${namespaces} namespaces of ${cluster}${which}`;
}
