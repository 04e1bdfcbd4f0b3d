import { X509Certificate } from "node:crypto";
import { LogEntry } from "../../../ca/issuance/log-entry.ts";
import type { IssuerTable } from "../../../config/issuer-table.ts";
import { nameAllowList } from "../../../foundation/globs.ts";
import { SerialNumber } from "../../../pki/encoding/serial-number.ts";
import { SpiffeId } from "../../../pki/spiffe-id.ts";
import type { IndexedEntry } from "./entry.ts";
import type { FollowerIndex } from "./follower-index.ts";

/**
 * The findings of `rampart log follow`. Each has its condition and what a person does then, in the words of the page
 * about the log.
 */
export const findings = {
  "authority-appeared": [
    "the CA trusts or uses the certificate of a CA that the log did not have, and `--authorities` does not list it. Each rotation and each import causes one",
    "compare the id with `rampart authority list`. If nobody made it, somebody has the KEK",
  ],
  "unknown-authority": [
    "a leaf whose authority the log does not have, or `--authorities` does not list",
    "as above",
  ],
  "dns-names-without-rule": [
    "a workload has DNS names, and no [rule](../reference/policy.md) gave them",
    "somebody else signs, or the CA is another program",
  ],
  "identity-outside-issuer": [
    "with `--config`: an issuer vouched for a namespace that is not its own",
    "the configuration was another one then, or somebody else signs",
  ],
  "serial-twice": ["two certificates have one serial number", "somebody else signs"],
  "node-asks-for-many": [
    "the proxies of a node asked for more than `--identities-per-node` identities in a day (500)",
    "[a taken node](incident.md#a-taken-node)",
  ],
  "node-asks-for-others": [
    "the proxies of a node asked for more than `--others-per-node` identities (3) that ran on one other node each in the day before, and that still do",
    "[a taken node](incident.md#a-taken-node), or workloads that got a second replica",
  ],
  "rate-jump": [
    "an hour has five times as many entries as the day before it had, and at least 200",
    "a rollout, or a stolen token",
  ],
  "stale-checkpoint": [
    "nothing is new for `--stale-after` (24 hours, in which every workload renews)",
    "`/readyz` says whether the CA can publish; else you are shown an old log",
  ],
  "quorum-lost": ["too few witnesses of `--policy` cosigned", "ask the witnesses"],
  "shard-gone": [
    "the server neither lists nor has a shard of the copy, and may hide what is new in it",
    "if you have deleted it, move its folder out of `--dir`",
  ],
  "records-rejected": [
    "the collector of `--to` rejected some records of a request, which OTLP forbids to send again",
    "the collector lacks these events, and the log has them: [From the CA to a SIEM](siem.md)",
  ],
} as const satisfies Readonly<Record<string, readonly [when: string, act: string]>>;

/** Something in a log that a human should look at. */
export interface Anomaly {
  readonly finding: keyof typeof findings;
  readonly detail: string;
  readonly index?: number;
  readonly serial?: string;
  readonly spiffeId?: string;
}

/** The settings by which the log monitor judges entries. */
export interface Watch {
  /** The certificates of every authority that the operator knows; if absent, those in the log are used. */
  readonly authorities: readonly X509Certificate[] | undefined;
  /** The tables of the issuers; if absent, namespaces are not checked. */
  readonly issuers: readonly IssuerTable[] | undefined;
  /** The most identities that the proxies of one node may ask for in a day. */
  readonly identitiesPerNode: number;
  /** The most identities of other nodes that the proxies of one node may ask for in a day. */
  readonly othersPerNode: number;
  /** The longest time without a new entry. */
  readonly staleAfterSeconds: number;
}

const hour = 3_600_000;
const day = 24 * hour;

/** Finds the anomalies in the entries from an index on, and in the state of the log; none in an empty copy. */
export function* anomaliesIn(
  index: FollowerIndex,
  from: number,
  watch: Watch,
  now: Date,
): Generator<Anomaly> {
  const newest = index.newest();
  if (newest === undefined) return;
  yield* staleCheckpoint(newest, watch.staleAfterSeconds, now);
  const known = watch.authorities ?? index.authorities().map(({ certificate }) => certificate);
  yield* appearedAuthorities(index, from, watch.authorities ?? []);
  let count = 0;
  for (const entry of index.from(from)) {
    count++;
    yield* findingsOf(entry, known, watch.issuers);
  }
  if (count === 0) return;
  yield* repeatedSerials(index, from);
  for (const detail of crowdedNodes(index, newest, watch.identitiesPerNode)) {
    yield { finding: "node-asks-for-many", detail };
  }
  for (const detail of strangersOnNodes(index, newest, watch.othersPerNode)) {
    yield { finding: "node-asks-for-others", detail };
  }
  yield* rateJump(index, newest);
}

/**
 * Finds a log without a new entry for too long. A mesh renews all the time, so either the server shows an old log, or
 * the CA publishes nothing.
 */
function* staleCheckpoint(newest: Date, seconds: number, now: Date): Generator<Anomaly> {
  if (now.getTime() - newest.getTime() <= 1000 * seconds) return;
  yield { finding: "stale-checkpoint", detail: `the newest entry is of ${newest.toISOString()}` };
}

/**
 * Finds new authorities that the operator did not list. A rotation brings one, and so does a thief of the KEK: a person
 * must tell which it was.
 */
function* appearedAuthorities(
  index: FollowerIndex,
  from: number,
  known: readonly X509Certificate[],
): Generator<Anomaly> {
  for (const { idx, certificate } of index.authorities(from)) {
    if (known.some(({ raw }) => raw.equals(certificate.raw))) continue;
    const serial = SerialNumber.shown(certificate.serialNumber);
    const id = certificate.fingerprint256.replaceAll(":", "").toLowerCase();
    const detail = `the CA trusts a CA certificate of SHA-256 ${id}`;
    yield { finding: "authority-appeared", detail, index: idx, serial };
  }
}

function* findingsOf(
  entry: IndexedEntry,
  authorities: readonly X509Certificate[],
  issuers: readonly IssuerTable[] | undefined,
): Generator<Anomaly> {
  const { idx, serial, spiffeId, octets } = entry;
  const said = LogEntry.parse(octets);
  const { issuer, proof } = said;
  if (proof === "authority") return;
  const about = { index: idx, serial, spiffeId };
  const certificate = LogEntry.certificateOf(said);
  const leaf = certificate && new X509Certificate(certificate);
  if (leaf && !isSignedByAny(leaf, authorities)) {
    yield { finding: "unknown-authority", detail: "no known authority signed it", ...about };
  }
  if (said.rule === undefined && /^URI:.*, DNS:/.test(leaf?.subjectAltName ?? "")) {
    const detail = "a workload has DNS names, and its entry names no rule that gives them";
    yield { finding: "dns-names-without-rule", detail, ...about };
  }
  if (!issuers || proof === "own") return;
  const table = issuers.find((each) => each.issuer === issuer);
  if (isWithin(spiffeId, table)) return;
  const detail = `${issuer ?? "no issuer"} may not vouch for it`;
  yield { finding: "identity-outside-issuer", detail, ...about };
}

/** Whether one of these authorities signed a certificate. Validity is not checked. */
export function isSignedByAny(
  leaf: X509Certificate,
  authorities: readonly X509Certificate[],
): boolean {
  return authorities.some((each) => leaf.checkIssued(each) && leaf.verify(each.publicKey));
}

function isWithin(spiffeId: string, table: IssuerTable | undefined): boolean {
  const namespace = SpiffeId.parseWorkload(spiffeId)?.account.namespace;
  // A serving certificate names hosts, so it has no namespace.
  if (namespace === undefined) return table !== undefined;
  return table !== undefined && nameAllowList(table.namespaces)(namespace);
}

/**
 * Finds serial numbers that entries of different names share. The same certificate or token may be logged twice, but
 * two different ones of one number have two signers.
 */
function repeatedSerials(index: FollowerIndex, from: number): Anomaly[] {
  const rows = index.all<{ serial: string; idx: number; spiffeId: string }>(
    `SELECT newer.serial, newer.idx, newer.spiffeId FROM entry newer
     JOIN entry older ON older.serial = newer.serial AND older.idx < newer.idx
     WHERE newer.idx >= ? AND older.spiffeId <> newer.spiffeId`,
    from,
  );
  return rows.map(({ serial, idx, spiffeId }) => {
    const detail = "another entry has the same serial number";
    return { finding: "serial-twice", detail, index: idx, serial, spiffeId };
  });
}

/** The least number of entries in an hour that is a jump. */
const leastOfJump = 200;
const jumpFactor = 5;

/** Finds an hour with many more entries than the mean of the day before it, in a log that is older than that. */
function rateJump(index: FollowerIndex, newest: Date): Anomaly[] {
  const at = (millisecondsAgo: number): string =>
    new Date(newest.getTime() - millisecondsAgo).toISOString();
  const count = (from: string, to: string): number =>
    index.all<{ n: number }>(
      "SELECT count(*) AS n FROM entry WHERE at > ? AND at <= ?",
      from,
      to,
    )[0]?.n ?? 0;
  if (count("", at(hour + day)) === 0) return [];
  const last = count(at(hour), at(0));
  const before = count(at(hour + day), at(hour)) / 24;
  if (last < leastOfJump || last < jumpFactor * before) return [];
  const detail = `${last} certificates and tokens in an hour, ${before.toFixed(1)} in the mean of the day before`;
  return [{ finding: "rate-jump", detail }];
}

const daysBefore = (newest: Date, days: number): string =>
  new Date(newest.getTime() - days * day).toISOString();

/** Lists each node whose proxies requested many identities: a stolen node proxy may request those of everybody. */
function crowdedNodes(index: FollowerIndex, newest: Date, limit: number): string[] {
  const rows = index.all<{ cluster: string; node: string; identities: number }>(
    `SELECT cluster, node, count(DISTINCT spiffeId) AS identities FROM entry
     WHERE at >= ? AND impersonator IS NOT NULL GROUP BY cluster, node HAVING identities > ?`,
    daysBefore(newest, 1),
    limit,
  );
  return rows.map(
    ({ cluster, node, identities }) =>
      `the proxies of node ${node} of ${cluster} asked for ${identities} identities in a day`,
  );
}

/**
 * Lists each node whose proxies requested identities that run on other nodes. An entry does not record the pod that a
 * proxy requested a certificate for, so one more replica on a new node looks like theft. Therefore a node is listed
 * only for several identities, each of which had run on exactly one other node and still renews there. A pod that
 * moves does not renew on its former node, and an account of many nodes had run on more than one.
 */
function strangersOnNodes(index: FollowerIndex, newest: Date, limit: number): string[] {
  const nodes = Map.groupBy(strangers(index, newest), ({ cluster, node }) =>
    JSON.stringify([cluster, node]),
  );
  return [...nodes.values()].flatMap((rows): string[] => {
    const [first] = rows;
    if (!first || rows.length <= limit) return [];
    const { cluster, node } = first;
    const some = rows.slice(0, 3).map(({ spiffeId, home }) => `${spiffeId} of ${home}`);
    return [
      `the proxies of node ${node} of ${cluster} asked for ${rows.length} identities that ran on one other node each, ` +
        `and still do: ${some.join(", ")}${rows.length > some.length ? ", …" : ""}`,
    ];
  });
}

/** An identity that a proxy of a node asked for, and the other node on which it runs. */
interface Stranger {
  readonly cluster: string;
  readonly node: string;
  readonly spiffeId: string;
  readonly home: string;
}

/**
 * The identities that a node's proxy requested although they run on another node. Most leaves live less than a day,
 * so whatever runs on a node has an entry of that day. On the first day of a cluster it is unknown what runs where,
 * so nothing is listed.
 */
function strangers(index: FollowerIndex, newest: Date): readonly Stranger[] {
  return index.all<Stranger>(
    `WITH seen AS (
       SELECT cluster, spiffeId, node, min(at) AS first, max(at) AS last,
         min(CASE WHEN impersonator IS NOT NULL THEN at END) AS asked
       FROM entry WHERE at >= ? AND node IS NOT NULL GROUP BY cluster, spiffeId, node)
     SELECT guest.cluster, guest.node, guest.spiffeId, home.node AS home
     FROM seen guest JOIN seen home ON home.cluster IS guest.cluster AND home.spiffeId = guest.spiffeId
       AND home.node <> guest.node AND home.first < guest.first
     WHERE guest.first >= ? AND guest.asked = guest.first AND guest.first >= (
       SELECT strftime('%Y-%m-%dT%H:%M:%fZ', min(at), '+1 day') FROM entry WHERE cluster IS guest.cluster)
     GROUP BY guest.cluster, guest.node, guest.spiffeId
     HAVING count(*) = 1 AND home.last > guest.first
     ORDER BY guest.first`,
    daysBefore(newest, 2),
    daysBefore(newest, 1),
  );
}
