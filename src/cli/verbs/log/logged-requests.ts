import { setImmediate as nextTurn } from "node:timers/promises";
import { LogEntry } from "../../../ca/issuance/log-entry.ts";
import type { Circumstances } from "../../../ca/policy/circumstances.ts";
import { type Outcome, Policy } from "../../../ca/policy/policy.ts";
import { parseJson } from "../../../foundation/json.ts";
import { type ServiceAccount, SpiffeId } from "../../../pki/spiffe-id.ts";
import { Certificate } from "../../../pki/x509/certificate.ts";
import { SubjectPublicKey } from "../../../pki/x509/subject-public-key.ts";
import { Distrust } from "../../../status/distrust.ts";
import { type LoggedEntry, loggedEntry } from "./entry.ts";
import type { FollowerIndex } from "./follower-index.ts";

/** A request in the log, as a policy would see it, and its outcome. */
interface LoggedRequest {
  readonly circumstances: Circumstances;
  readonly made: Outcome;
  /** Whether the entry is of an older version, which does not record whom the certificate is for. */
  readonly isVague?: boolean | undefined;
}

/** Equal requests, counted together: only their times and `provedAt` may differ. */
export interface PastRequest extends LoggedRequest {
  readonly count: number;
  /** The place of the first one: `entry 17`, or `line 3` of an audit trail. */
  readonly place: string;
}

/** Reads the request of an entry. @returns `undefined` for a certificate that the CA issued without one. */
function loggedRequest(
  entry: LogEntry,
  { spiffeId }: Pick<LoggedEntry, "spiffeId">,
): LoggedRequest | undefined {
  const { proof } = entry;
  if (proof === "own" || proof === "authority") return undefined;
  const named = SpiffeId.parseWorkload(spiffeId)?.account;
  const account = named ?? accountIn(entry.account);
  const isWorkload = named !== undefined;
  const product = entry.kind === "token" ? "token" : productOf(spiffeId, isWorkload);
  const asker =
    SpiffeId.parseWorkload(entry.gateway ?? entry.impersonator ?? "")?.account ?? account;
  const { dnsNames, ...content } = contentOf(entry, isWorkload);
  const { requestedSeconds: requested, certSigner, provedAt, tokenSubject } = entry;
  const signer = product === "workload" ? entry.signer : undefined;
  const isUnnamed = entry.holder === "unnamed";
  const isAssumed = entry.vouched === "assumed";
  const isNodeHidden = isUnnamed || entry.gateway !== undefined || provedAt !== undefined;
  return {
    circumstances: {
      cluster: isAssumed ? undefined : entry.cluster,
      issuer: isAssumed ? undefined : entry.issuer,
      namespace: account?.namespace,
      account: account?.name,
      node: isNodeHidden ? undefined : entry.node?.name,
      caller: { namespace: asker?.namespace, account: asker?.name },
      ...Policy.hidden({
        issuer: isAssumed,
        account: !account && isUnnamed,
        node: isNodeHidden,
        claims: tokenSubject === "unknown" || isForwardedName(entry),
      }),
      provedAt: provedAt === undefined ? undefined : new Date(provedAt),
      proof,
      product,
      requested,
      claims: tokenSubject === "unknown" ? undefined : tokenSubject?.claims,
      ...content,
      signer: (certSigner ?? signer) || undefined,
    },
    made: {
      lifeSeconds: entry.grantedSeconds ?? requested,
      signer,
      ...(dnsNames.length > 0 && { dnsNames }),
    },
    ...(!account && !isUnnamed && { isVague: true }),
  };
}

/** Whether a gateway has passed on the caller's name, but not the caller's certificate. */
const isForwardedName = ({ gateway, callerSerialNumber }: LogEntry): boolean =>
  gateway !== undefined && callerSerialNumber === undefined;

function contentOf(entry: LogEntry, isWorkload: boolean) {
  if (entry.kind === "token") return { audiences: entry.token.audiences, dnsNames: [] };
  const certificate = Certificate.parse(entry.certificate);
  return {
    key_type: SubjectPublicKey.parse(certificate.toBeSigned.spki).algorithm,
    dnsNames: isWorkload ? Distrust.namesOf(certificate).split(", ").slice(1) : [],
  };
}

function productOf(name: string, isWorkload: boolean): Circumstances["product"] {
  if (isWorkload) return "workload";
  return name.startsWith("DNS:") ? "serving" : "intermediate";
}

function accountIn(text: string | undefined): ServiceAccount | undefined {
  const [namespace = "", name = ""] = text?.split("/") ?? [];
  return text === undefined ? undefined : { namespace, name };
}

/** Stores in a copy of a log what rules can match of an entry; equal requests share one row. */
export function addRequest(
  index: FollowerIndex,
  idx: number,
  entry: LogEntry,
  logged: LoggedEntry,
): void {
  const request = loggedRequest(entry, logged);
  const { provedAt, ...circumstances } = request?.circumstances ?? {};
  const json = request && JSON.stringify({ ...request, circumstances });
  if (json !== undefined) index.run("INSERT OR IGNORE INTO question (json) VALUES (?)", json);
  index.run(
    "INSERT OR REPLACE INTO request VALUES (?, ?, (SELECT id FROM question WHERE json = ?), ?)",
    ...[idx, entry.at, json ?? null, provedAt?.toISOString() ?? null],
  );
}

/** Adds the requests of entries that an older program stored without them. */
export async function addMissingRequests(index: FollowerIndex): Promise<void> {
  // A count is quick even in a copy of a million entries, and usually nothing is missing.
  const [counts] = index.all<{ missing: number }>(
    "SELECT (SELECT count(*) FROM entry) - (SELECT count(*) FROM request) AS missing",
  );
  if (counts?.missing === 0) return;
  const [row] = index.all<{ first: number }>(
    "SELECT min(idx) AS first FROM entry LEFT JOIN request USING (idx) WHERE request.idx IS NULL",
  );
  await index.transaction(async () => {
    for (const { idx, octets } of index.from(row?.first ?? 0)) {
      if (idx % 1000 === 0) await nextTurn();
      const entry = LogEntry.parse(octets);
      addRequest(index, idx, entry, loggedEntry(entry));
    }
  });
}

/** How many entries are counted before other work gets a turn, such as the terminal's notes of progress. */
const entriesAtOnce = 50_000;

/**
 * Reads the requests of a copy from an instant on, with equal requests counted together, in the order of their first
 * entries. Certificates that nobody requested are left out.
 * @param since ISO 8601; empty for all.
 * @param instants Equal requests are counted apart if one of these lies between their `provedAt`.
 */
export async function* requestsSince(
  index: FollowerIndex,
  since: string,
  instants: readonly Date[],
): AsyncGenerator<PastRequest> {
  const age = ["0", ...instants.map(() => "(provedAt > ?)")].join(" + ");
  const [last] = index.all<{ idx: number | null }>("SELECT max(idx) AS idx FROM request");
  index.run("DROP TABLE IF EXISTS temp.alike");
  index.run(`CREATE TEMP TABLE alike (
    question INTEGER, age INTEGER, latest TEXT, n INTEGER, first INTEGER,
    PRIMARY KEY (question, age)) STRICT, WITHOUT ROWID`);
  for (let from = 0; from <= (last?.idx ?? -1); from += entriesAtOnce) {
    index.run(
      `INSERT INTO alike
         SELECT question, coalesce(${age}, -1) AS age, max(provedAt), count(*), min(idx) FROM request
         WHERE idx >= ? AND idx < ? AND at >= ? AND question IS NOT NULL GROUP BY question, age
         ON CONFLICT DO UPDATE SET n = n + excluded.n, latest = max(latest, excluded.latest)`,
      ...instants.map((each) => each.toISOString()),
      ...[from, from + entriesAtOnce, since],
    );
    await nextTurn();
  }
  const alike = index.each<{ json: string; latest: string | null; n: number; first: number }>(
    "SELECT json, alike.* FROM alike JOIN question ON question.id = alike.question ORDER BY first",
  );
  for (const { json, latest, n, first } of alike) {
    const { circumstances, ...request } = parseJson(json) as LoggedRequest;
    const known = { ...circumstances, ...(latest !== null && { provedAt: new Date(latest) }) };
    yield { ...request, circumstances: known, count: n, place: `entry ${first}` };
  }
}
