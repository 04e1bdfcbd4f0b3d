import { X509Certificate } from "node:crypto";
import { parseEntry } from "../../ca/issuance/log-entry.ts";
import type { IssuerTable } from "../../config/issuer-table.ts";
import { nameAllowList } from "../../foundation/text/globs.ts";
import { parseWorkloadSpiffeId } from "../../pki/spiffe-id.ts";
import type { FollowerIndex, IndexedEntry } from "./follower-index.ts";

/** Something in a log that a human should look at. */
export interface Finding {
  readonly finding:
    | "unknown-authority"
    | "identity-outside-issuer"
    | "serial-twice"
    | "node-asks-for-many"
    | "rate-jump"
    | "quorum-lost";
  readonly detail: string;
  readonly index?: number;
  readonly serial?: string;
  readonly spiffeId?: string;
}

/** A watcher's knowledge of the mesh. A check that lacks its part is left out. */
export interface Watch {
  /** The certificates of every authority that may sign. */
  readonly authorities: readonly X509Certificate[] | undefined;
  readonly issuers: readonly IssuerTable[] | undefined;
  /** The most identities that the proxies of one node may ask for in a day. */
  readonly identitiesPerNode: number;
}

const day = 86_400_000;

/** The findings in the entries from an index on. */
export function findingsIn(index: FollowerIndex, from: number, watch: Watch): readonly Finding[] {
  const entries = index.all<IndexedEntry>("SELECT * FROM entry WHERE idx >= ? ORDER BY idx", from);
  const newest = entries.at(-1);
  if (!newest) return [];
  return [
    ...entries.flatMap((entry) => findingsOf(entry, watch)),
    ...repeatedSerials(index, from),
    ...crowdedNodes(index, new Date(newest.at), watch.identitiesPerNode),
    ...rateJump(index, new Date(newest.at)),
  ];
}

function findingsOf(entry: IndexedEntry, { authorities, issuers }: Watch): Finding[] {
  const { idx, serial, spiffeId, octets } = entry;
  const { certificate, issuer, proof } = parseEntry(octets);
  const about = { index: idx, serial, spiffeId };
  const found: Finding[] = [];
  if (authorities && !isSignedByAny(new X509Certificate(certificate), authorities)) {
    found.push({ finding: "unknown-authority", detail: "no known authority signed it", ...about });
  }
  const table = issuers?.find((each) => each.issuer === issuer);
  if (issuers && proof === "token" && !isWithin(spiffeId, table)) {
    const detail = `${issuer ?? "no issuer"} may not vouch for it`;
    found.push({ finding: "identity-outside-issuer", detail, ...about });
  }
  return found;
}

function isSignedByAny(leaf: X509Certificate, authorities: readonly X509Certificate[]): boolean {
  return authorities.some((each) => leaf.checkIssued(each) && leaf.verify(each.publicKey));
}

function isWithin(spiffeId: string, table: IssuerTable | undefined): boolean {
  const namespace = parseWorkloadSpiffeId(spiffeId)?.account.namespace;
  // A serving certificate names hosts.
  if (namespace === undefined) return table !== undefined;
  return table !== undefined && nameAllowList(table.namespaces)(namespace);
}

/** One certificate may be logged twice; two certificates of one serial number have two authors. */
function repeatedSerials(index: FollowerIndex, from: number): Finding[] {
  const rows = index.all<{ serial: string; idx: number; spiffeId: string }>(
    `SELECT newer.serial, newer.idx, newer.spiffeId FROM entry newer
     JOIN entry older ON older.serial = newer.serial AND older.idx < newer.idx
     WHERE newer.idx >= ? AND older.spiffeId <> newer.spiffeId`,
    from,
  );
  return rows.map(({ serial, idx, spiffeId }) => {
    const detail = "another certificate has the same serial number";
    return { finding: "serial-twice", detail, index: idx, serial, spiffeId };
  });
}

/** A node's proxies ask for the workloads of their node; a stolen one may ask for everybody's. */
function crowdedNodes(index: FollowerIndex, newest: Date, limit: number): Finding[] {
  const since = new Date(newest.getTime() - day).toISOString();
  const rows = index.all<{ cluster: string; node: string; identities: number }>(
    `SELECT cluster, node, count(DISTINCT spiffeId) AS identities FROM entry
     WHERE at >= ? AND impersonator IS NOT NULL GROUP BY cluster, node HAVING identities > ?`,
    since,
    limit,
  );
  return rows.map(({ cluster, node, identities }) => ({
    finding: "node-asks-for-many",
    detail: `the proxies of node ${node} of ${cluster} asked for ${identities} identities in a day`,
  }));
}

const hour = 3_600_000;
/** Fewer certificates in an hour are no jump. */
const leastOfJump = 200;
const jumpFactor = 5;

/** Compares the last hour with the mean of the day before it. */
function rateJump(index: FollowerIndex, newest: Date): Finding[] {
  const at = (millisecondsAgo: number): string =>
    new Date(newest.getTime() - millisecondsAgo).toISOString();
  const count = (from: string, to: string): number =>
    index.all<{ n: number }>(
      "SELECT count(*) AS n FROM entry WHERE at > ? AND at <= ?",
      from,
      to,
    )[0]?.n ?? 0;
  const last = count(at(hour), at(0));
  const before = count(at(hour + day), at(hour)) / 24;
  if (before === 0 || last < leastOfJump || last < jumpFactor * before) return [];
  const detail = `${last} certificates in an hour, ${before.toFixed(1)} in the mean of the day before`;
  return [{ finding: "rate-jump", detail }];
}
