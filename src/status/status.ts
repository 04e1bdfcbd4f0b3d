import type { TokenIssuer } from "../authn/token-issuer.ts";
import type { Authorities } from "../ca/authorities.ts";
import type { AuthorityView } from "../ca/authority-view.ts";
import { type Hindrances, readinessIn } from "../ca/readiness.ts";
import type { Configuration } from "../config/configuration.ts";
import type { PushReport } from "../delivery/cluster-push.ts";
import { CaError } from "../foundation/errors.ts";
import { type Bytes, fingerprintOf } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { Certificate } from "../pki/x509/certificate.ts";
import { displayedName } from "../pki/x509/displayed-name.ts";
import type { Validity } from "../pki/x509/validity.ts";
import { SignerStatus } from "./authorities.ts";
import {
  type ClusterStatus,
  clusterStatuses,
  pushedCrlFindings,
  pushedRootFindings,
} from "./clusters.ts";
import { configurationFindings } from "./configuration-findings.ts";
import type { StatedDistrust } from "./distrust.ts";
import { Finding } from "./finding.ts";
import {
  countsInLog,
  type IssuanceCounts,
  type IssuanceStatus,
  notCounted,
  type RuleStatus,
  ruleStatuses,
} from "./issuance.ts";
import { examinedIssuer, type IssuerStatus, issuerFindings, issuerStatus } from "./issuers.ts";
import type { FoundEntries, LogQuestion, LogSearch, SearchableLog } from "./log-search.ts";
import { LogSearchError } from "./log-search-error.ts";
import { storeFindings } from "./store-findings.ts";

/** The status of a CA at an instant, for operators. It has no secret. */
export interface CaStatus {
  /** The instant of every phase and count. */
  readonly now: Date;
  readonly trustDomain: string;
  /** The program that answers, such as `rampart serve`. */
  readonly program: string;
  /** Whether a certificate could be signed now. */
  readonly ready: boolean;
  /** Why the CA is not ready, and what else an operator should attend to, one sentence each. */
  readonly needsAttention: readonly string[];
  /** The CA's own authorities come first, then the named signers. */
  readonly signers: readonly SignerStatus[];
  readonly trustBundle: { readonly sequence: number; readonly roots: readonly RootStatus[] };
  readonly clusters: readonly ClusterStatus[];
  readonly issuers: readonly IssuerStatus[];
  readonly issuance: IssuanceStatus;
  /** The rules of the policy in their order. */
  readonly rules: readonly RuleStatus[];
  /** The worst come first. */
  readonly findings: readonly Finding[];
  /** Whether certificates are logged, and whether the reader may see entries. */
  readonly log: "off" | "readable" | "closed";
}

/** A root of the trust bundle. One that cannot be read has a fingerprint alone. */
interface RootStatus extends Partial<Validity> {
  /** The subject as RFC 4514 writes it. */
  readonly subject: string;
  /** The hexadecimal SHA-256 of the certificate. */
  readonly fingerprint: string;
}

/** The parts of a CA that the status reads. Reading them sends no request, except to the stores and the log. */
export interface StatusSources extends CheckupSources {
  readonly configuration: CheckupSources["configuration"] &
    Pick<Configuration, "trustDomain" | "policy" | "configuredDenials" | "configuredRevocations">;
  readonly program: string;
  readonly issuance: {
    readonly authorities: Authorities;
    readonly signers: ReadonlyMap<string, { readonly authorities: Authorities }>;
  } & Hindrances;
  /** Absent if nothing is logged. */
  readonly searchableLog: SearchableLog | undefined;
  /** Whether the reader has shown a credential, without which no entries of the log are shown. */
  readonly hasCredentials: boolean;
  /** The counts of calls. If absent, because no process counts them, they are taken from the issuance log. */
  readonly counts?: IssuanceCounts | undefined;
}

/** The status of a CA, read by the console and its service. */
export interface Status {
  readonly at: (now: Date) => Promise<CaStatus>;
  /** Absent if the reader may see no entries. @throws LogSearchError */
  readonly searchLog: ((question: LogQuestion) => Promise<FoundEntries>) | undefined;
}

/** Creates the status of a CA. */
export const Status = {
  /** Creates the status of a CA from its parts. Unless `hasCredentials`, it has no search of the log. */
  create(sources: StatusSources): Status {
    const { searchableLog, hasCredentials } = sources;
    const checkup = createCheckup(sources);
    const search = hasCredentials
      ? searchableLog?.((now) => statementsAt(sources, now))
      : undefined;
    return {
      at: (now) => statusAt(sources, { checkup, search }, now),
      searchLog: search && ((question) => search.search(question)),
    };
  },
};

/** All that is stated against certificates. @throws CaError `store-unreachable` */
async function statementsAt(
  { configuration, issuance: { authorities, signers } }: StatusSources,
  now: Date,
): Promise<StatedDistrust> {
  const own = await authorities.at(now);
  const others = await Promise.all([...signers.values()].map((each) => each.authorities.at(now)));
  return {
    authorities: [own, ...others].flatMap(({ crlIssuers }) =>
      crlIssuers.map((each) => each.authority),
    ),
    revocations: [...own.revocations, ...configuration.configuredRevocations],
    denials: [...own.denials, ...configuration.configuredDenials],
  };
}

async function statusAt(
  sources: StatusSources,
  { checkup, search }: { readonly checkup: Checkup; readonly search: LogSearch | undefined },
  now: Date,
): Promise<CaStatus> {
  const { program, configuration, issuance, issuers, push } = sources;
  const { views, faults } = await viewsAt(issuance, now);
  const own = views.get("");
  const { ready, reasons } = await readinessIn(own, issuance, now);
  const sequence = own?.sequence ?? 0;
  const roots = own?.trustBundle.roots ?? [];
  const counts = await countsAt(sources.counts, search, now);
  const isCounted = typeof counts !== "string";
  return {
    now,
    trustDomain: configuration.trustDomain,
    program,
    ready,
    needsAttention: [...faults, ...attentionIn(views), ...reasons],
    signers: [...views].map(([name, { store }]) => SignerStatus.of(name, store, now)),
    trustBundle: { sequence, roots: roots.map(rootStatus) },
    clusters: clusterStatuses(issuers, push, sequence),
    issuers: issuers.map((each) => issuerStatus(each, now)),
    issuance: isCounted ? counts.statusAt(now) : notCounted(counts),
    rules: ruleStatuses(configuration.policy, isCounted ? counts : undefined, now),
    findings: checkup(views, now),
    log: sources.searchableLog ? (search ? "readable" : "closed") : "off",
  };
}

/** The views of the signers whose stores can be read, and the faults of the others, so that a status is still shown. */
async function viewsAt({ authorities, signers }: StatusSources["issuance"], now: Date) {
  const views = new Map<string, AuthorityView>();
  const faults = new Set<string>();
  for (const [name, each] of [["", { authorities }] as const, ...signers]) {
    try {
      views.set(name, await each.authorities.at(now));
    } catch (error) {
      if (!(error instanceof CaError)) throw error;
      faults.add(error.message);
    }
  }
  return { views, faults: [...faults] };
}

function attentionIn(views: ReadonlyMap<string, AuthorityView>): string[] {
  return [...views].flatMap(([name, { reasons }]) =>
    name === "" ? reasons : reasons.map((reason) => `signer ${name}: ${reason}`),
  );
}

const nothingCounts =
  "Calls are not counted here. Workers Logs has a line for each, a dataset of Analytics Engine that is bound as CALL_COUNTS counts them by cluster and outcome, and an issuance log counts what was issued.";

/** The counts of this process, or of the log. @returns If there are none, or the log cannot be read, the reason. */
async function countsAt(
  counts: IssuanceCounts | undefined,
  search: LogSearch | undefined,
  now: Date,
): Promise<IssuanceCounts | string> {
  if (counts) return counts;
  if (!search) return nothingCounts;
  try {
    return countsInLog(await search.newest(), now);
  } catch (error) {
    if (error instanceof LogSearchError) return error.message;
    throw error;
  }
}

function rootStatus(der: Bytes): RootStatus {
  const fingerprint = fingerprintOf(der);
  try {
    const { subject, validity } = Certificate.parse(der).toBeSigned;
    return { subject: displayedName(subject), fingerprint, ...validity };
  } catch (error) {
    if (error instanceof DerError) return { subject: "", fingerprint };
    throw error;
  }
}

/** The parts of a running CA that a checkup reads. */
export interface CheckupSources {
  readonly configuration: Pick<
    Configuration,
    "inceptionDate" | "signers" | "issuers" | "warnings" | "crl"
  >;
  readonly issuers: readonly TokenIssuer[];
  readonly push: PushReport;
  readonly crlPush: PushReport;
}

/**
 * Examines a running CA without calling other servers, and returns its findings, the worst first. `rampart doctor`
 * examines more.
 */
export type Checkup = (views: ReadonlyMap<string, AuthorityView>, now: Date) => readonly Finding[];

/** The longest sentence that is shown. */
const longestWhat = 1000;

/** Creates the examination of a running CA. It keeps the findings about the configuration, which does not change. */
export function createCheckup(sources: CheckupSources): Checkup {
  const { configuration, issuers, push, crlPush } = sources;
  const inceptionDates = new Map([
    ["", configuration.inceptionDate],
    ...configuration.signers.map((each) => [each.name, each.inception_date] as const),
  ]);
  // Kept, because comparing many issuers takes long and the configuration does not change.
  let configured: readonly Finding[] | undefined;

  return (views, now) => {
    configured ??= configurationFindings(configuration);
    const found = [
      ...configured,
      ...[...views].flatMap(([name, { store }]) =>
        storeFindings(store, inceptionDates.get(name), now).map((each) =>
          Finding.ofSigner(name, each),
        ),
      ),
      ...issuerFindings(issuers.map((each) => examinedIssuer(each, now))),
      ...pushedRootFindings(push.outcomes(), views.get("")?.sequence),
      ...(configuration.crl ? pushedCrlFindings(crlPush.outcomes()) : []),
    ];
    return Finding.worstFirst(found).map((each) => ({
      ...each,
      what: each.what.slice(0, longestWhat),
    }));
  };
}
