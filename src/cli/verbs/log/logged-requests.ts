import { setImmediate as nextTurn } from "node:timers/promises";
import { type LogEntry, parseEntry } from "../../../ca/issuance/log-entry.ts";
import type { Circumstances } from "../../../ca/policy/circumstances.ts";
import type { Outcome } from "../../../ca/policy/policy.ts";
import { parseWorkloadSpiffeId, type ServiceAccount } from "../../../pki/spiffe-id.ts";
import { parseCertificate } from "../../../pki/x509/certificate.ts";
import { parseSubjectPublicKey } from "../../../pki/x509/subject-public-key.ts";
import { namesOf } from "../../../status/distrust.ts";
import { type LoggedEntry, loggedEntry } from "./entry.ts";
import type { FollowerIndex } from "./follower-index.ts";

/** A request of the log, as a policy is asked about it, and what came of it. */
interface LoggedRequest {
  readonly circumstances: Circumstances;
  readonly made: Outcome;
  /** Whether the entry is too old to say whom its certificate is for. */
  readonly isVague?: boolean | undefined;
}

/** Requests of which nothing differs but when, and the last token of a certificate. */
export interface PastRequest extends LoggedRequest {
  readonly count: number;
  /** Where the first of them is: `entry 17`, or `line 3` of an audit trail. */
  readonly place: string;
}

/** The request of an entry; `undefined` for what nobody asked for. */
function loggedRequest(
  entry: LogEntry,
  { spiffeId }: Pick<LoggedEntry, "spiffeId">,
): LoggedRequest | undefined {
  const { proof } = entry;
  if (proof === "own" || proof === "authority") return undefined;
  const named = parseWorkloadSpiffeId(spiffeId)?.account;
  const account = named ?? accountIn(entry.account);
  const isWorkload = named !== undefined;
  const product = entry.kind === "token" ? "token" : productOf(spiffeId, isWorkload);
  const asker =
    parseWorkloadSpiffeId(entry.gateway ?? entry.impersonator ?? "")?.account ?? account;
  const { audiences, keyType, dnsNames } = contentOf(entry, isWorkload);
  const { requestedSeconds, certSigner } = entry;
  const signer = product === "workload" ? entry.signer : undefined;
  const nodeHidden = nodeHiddenIn(entry);
  return {
    circumstances: {
      cluster: entry.cluster,
      issuer: entry.issuer,
      namespace: account?.namespace,
      account: account?.name,
      callerNamespace: asker?.namespace,
      callerAccount: asker?.name,
      node: nodeHidden ? undefined : entry.node?.name,
      nodeHidden,
      proof,
      signer: (certSigner ?? signer) || undefined,
      product,
      requestedSeconds,
      ...{ keyType, audiences },
    },
    made: {
      ...{ lifeSeconds: entry.grantedSeconds ?? requestedSeconds, signer },
      ...(dnsNames.length > 0 && { dnsNames }),
    },
    ...(!account && { isVague: true }),
  };
}

interface Content extends Pick<Circumstances, "audiences" | "keyType"> {
  readonly dnsNames: readonly string[];
}

function contentOf(entry: LogEntry, isWorkload: boolean): Content {
  if (entry.kind === "token") {
    return { audiences: entry.token.audiences, keyType: undefined, dnsNames: [] };
  }
  const certificate = parseCertificate(entry.certificate);
  return {
    keyType: parseSubjectPublicKey(certificate.toBeSigned.spki).algorithm,
    dnsNames: isWorkload ? namesOf(certificate).split(", ").slice(1) : [],
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

function nodeHiddenIn(entry: LogEntry): Circumstances["nodeHidden"] {
  if (entry.provedAt !== undefined) return new Date(entry.provedAt);
  return entry.holder === "unnamed" || entry.gateway !== undefined ? "always" : undefined;
}

/** Keeps in a copy of a log what rules ask for, once for all requests that are alike. */
export function addRequest(
  index: FollowerIndex,
  idx: number,
  entry: LogEntry,
  logged: LoggedEntry,
): void {
  const request = loggedRequest(entry, logged);
  const { nodeHidden, ...circumstances } = request?.circumstances ?? {};
  const json = request && JSON.stringify({ ...request, circumstances });
  if (json !== undefined) index.run("INSERT OR IGNORE INTO facts (json) VALUES (?)", json);
  const hidden = nodeHidden instanceof Date ? nodeHidden.toISOString() : nodeHidden;
  index.run(
    "INSERT OR REPLACE INTO asked VALUES (?, ?, (SELECT id FROM facts WHERE json = ?), ?)",
    ...[idx, entry.at, json ?? null, hidden ?? null],
  );
}

/** Reads the entries of a copy that an older program has made. */
export async function addMissingRequests(index: FollowerIndex): Promise<void> {
  const [row] = index.all<{ first: number | null }>(
    "SELECT min(idx) AS first FROM entry LEFT JOIN asked USING (idx) WHERE asked.idx IS NULL",
  );
  const first = row?.first;
  if (typeof first !== "number") return;
  await index.transaction(async () => {
    for (const { idx, octets } of index.from(first)) {
      if (idx % 1000 === 0) await nextTurn();
      const entry = parseEntry(octets);
      addRequest(index, idx, entry, loggedEntry(entry));
    }
  });
}

/** Few enough to be asked for in a blink, so that a terminal can say meanwhile that it works. */
const entriesAtOnce = 50_000;

/**
 * The requests of a copy from an instant on, those among some thousands that are alike together.
 *
 * @param instants Where a last token before and after one of them counts differently.
 */
export function* requestsSince(
  index: FollowerIndex,
  since: string,
  instants: readonly Date[],
): Generator<PastRequest> {
  const ages = instants.map(() => ", hidden > ?").join("");
  const [last] = index.all<{ idx: number | null }>("SELECT max(idx) AS idx FROM asked");
  for (let from = 0; from <= (last?.idx ?? -1); from += entriesAtOnce) {
    const rows = index.all<{ json: string; latest: string | null; n: number; first: number }>(
      `SELECT json, alike.* FROM (
         SELECT facts, max(hidden) AS latest, count(*) AS n, min(idx) AS first FROM asked
         WHERE idx >= ? AND idx < ? AND at >= ? AND facts IS NOT NULL
         GROUP BY facts, hidden = 'always'${ages}
       ) alike JOIN facts ON facts.id = alike.facts ORDER BY first`,
      ...[from, from + entriesAtOnce, since],
      ...instants.map((each) => each.toISOString()),
    );
    for (const { json, latest, n, first } of rows) {
      const { circumstances, ...request } = JSON.parse(json) as LoggedRequest;
      const nodeHidden = latest === null || latest === "always" ? latest : new Date(latest);
      const known = { ...circumstances, ...(nodeHidden && { nodeHidden }) } as Circumstances;
      yield { ...request, circumstances: known, count: n, place: `entry ${first}` };
    }
  }
}
