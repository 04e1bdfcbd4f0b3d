import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createConnectRouter } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import {
  NextStep_Act as Act,
  type AuthoritySchema,
  type ClusterSchema,
  Cluster_Delivery as Delivery,
  Distrust_State as DistrustState,
  type GetStatusResponseSchema,
  type IssuerSchema,
  Issuer_KeyState as KeyState,
  Authority_Kind as Kind,
  LogState,
  Phase,
  type SearchLogResponseSchema,
  Finding_Severity as Severity,
  type SignerSchema,
  StatusService,
  Event_What as What,
} from "../gen/rampart/status/v1/status_pb.ts";
import type { AuthorityStatus, SignerStatus } from "../status/authorities.ts";
import type { ClusterStatus } from "../status/clusters.ts";
import type { IssuerStatus } from "../status/issuers.ts";
import type { FoundEntries } from "../status/log-search.ts";
import { LogSearchError } from "../status/log-search-error.ts";
import type { CaStatus, Status } from "../status/status.ts";

/** What the status service needs. */
interface StatusServiceParts {
  readonly status: Status;
  readonly clock: () => Date;
  /** Admits a caller before a byte of the message is read. @throws ConnectError */
  readonly admit: (headers: Headers) => Promise<void>;
  /** Whether the platform has trailers, which native gRPC needs. */
  readonly hasTrailers: boolean;
}

/** Enough for a query, which has at most 256 characters. */
const maximumRequestOctets = 4096;
const maximumAnswerOctets = 4 * 1024 * 1024;

/** Creates the handlers of `rampart.status.v1.StatusService`, for every protocol of the platform. */
export function createStatusHandlers({
  status,
  clock,
  admit,
  hasTrailers,
}: StatusServiceParts): readonly UniversalHandler[] {
  const router = createConnectRouter({
    grpc: hasTrailers,
    readMaxBytes: maximumRequestOctets,
    writeMaxBytes: maximumAnswerOctets,
    requestGate: ({ requestHeader }) => admit(requestHeader),
  });
  router.service(StatusService, {
    getStatus: async (_request, { responseHeader }) => {
      responseHeader.set("cache-control", "no-store");
      return statusMessage(await status.at(clock()));
    },
    searchLog: async ({ query, limit }, { responseHeader }) => {
      responseHeader.set("cache-control", "no-store");
      if (!status.searchLog) {
        throw new ConnectError("no entry of a log may be read here", Code.FailedPrecondition);
      }
      return entriesMessage(await status.searchLog({ query, limit, now: clock() }).catch(rethrown));
    },
  });
  return router.handlers;
}

const codes: Readonly<Record<LogSearchError["reason"], Code>> = {
  query: Code.InvalidArgument,
  busy: Code.ResourceExhausted,
  unreadable: Code.Unavailable,
};

function rethrown(error: unknown): never {
  if (!(error instanceof LogSearchError)) throw error;
  throw new ConnectError(error.message, codes[error.reason], undefined, undefined, error);
}

type Constant<Word extends string> = Word extends `${infer First} ${infer Rest}`
  ? `${Uppercase<First>}_${Constant<Rest>}`
  : Uppercase<Word>;

/** A word as protobuf's enums write it: `not fetched` becomes `NOT_FETCHED`. */
const constant = <Word extends string>(word: Word) =>
  word.toUpperCase().replaceAll(" ", "_") as Constant<Word>;

const timestamp = (at: Date | undefined) => at && timestampFromDate(at);

function statusMessage(status: CaStatus): MessageInitShape<typeof GetStatusResponseSchema> {
  const { now, trustBundle, issuance, findings, log } = status;
  const { sequence, roots } = trustBundle;
  return {
    ...status,
    now: timestampFromDate(now),
    needsAttention: [...status.needsAttention],
    signers: status.signers.map(signerMessage),
    trustBundle: {
      sequence: BigInt(sequence),
      roots: roots.map((root) => ({
        ...root,
        notBefore: timestamp(root.notBefore),
        notAfter: timestamp(root.notAfter),
      })),
    },
    clusters: status.clusters.map(clusterMessage),
    issuers: status.issuers.map(issuerMessage),
    issuance: {
      ...issuance,
      since: timestamp(issuance.since),
      clusters: [...issuance.clusters],
      hours: [...issuance.hours],
    },
    checkup: {
      at: timestampFromDate(now),
      findings: findings.map((each) => ({ ...each, severity: Severity[constant(each.severity)] })),
    },
    log: LogState[constant(log)],
  };
}

function signerMessage({
  name,
  authorities,
  events,
  nextStep,
}: SignerStatus): MessageInitShape<typeof SignerSchema> {
  return {
    name,
    authorities: authorities.map(authorityMessage),
    events: events.map(({ at, id, event }) => ({
      at: timestampFromDate(at),
      authority: id,
      what: What[constant(event)],
    })),
    nextStep: nextStep && {
      act: Act[constant(nextStep.act)],
      due: timestamp(nextStep.due),
      deadline: timestamp(nextStep.deadline),
    },
  };
}

function authorityMessage(authority: AuthorityStatus): MessageInitShape<typeof AuthoritySchema> {
  const { schedule } = authority;
  return {
    ...authority,
    kind: Kind[constant(authority.kind)],
    phase: Phase[constant(authority.phase)],
    key: authority.key ?? "",
    tainted: authority.isTainted,
    taintedAt: timestamp(authority.taintedAt),
    publishedFrom: timestampFromDate(schedule.publishedFrom),
    signsFrom: timestampFromDate(schedule.signsFrom),
    signsUntil: timestampFromDate(schedule.signsUntil),
    retiresAt: timestampFromDate(schedule.retiresAt),
  };
}

function clusterMessage({
  name,
  delivery,
  progress,
}: ClusterStatus): MessageInitShape<typeof ClusterSchema> {
  if (!progress) return { name, delivery: Delivery[constant(delivery)] };
  return {
    ...progress,
    name,
    delivery: Delivery[constant(delivery)],
    sequence: BigInt(progress.sequence),
    since: timestamp(progress.since),
    fault: progress.fault ?? "",
  };
}

function issuerMessage({
  keys,
  knownKeys,
  fetchedAt,
  failure,
  ...issuer
}: IssuerStatus): MessageInitShape<typeof IssuerSchema> {
  return {
    ...issuer,
    keys: KeyState[constant(keys ?? "unspecified")],
    knownKeys: knownKeys.map(({ keyId = "", algorithms }) => ({
      id: keyId,
      algorithms: [...algorithms],
    })),
    fetchedAt: timestamp(fetchedAt),
    failedAt: timestamp(failure?.at),
    failure: failure?.detail ?? "",
  };
}

function entriesMessage({
  entries,
  searched,
  total,
}: FoundEntries): MessageInitShape<typeof SearchLogResponseSchema> {
  return {
    entries: entries.map((entry) => ({
      ...entry,
      index: BigInt(entry.index),
      audiences: [...entry.audiences],
      at: timestampFromDate(entry.at),
      notAfter: timestampFromDate(entry.notAfter),
      distrust: entry.distrust && {
        ...entry.distrust,
        state: DistrustState[constant(entry.distrust.state)],
        since: timestamp(entry.distrust.since),
      },
    })),
    searched: BigInt(searched),
    total: BigInt(total),
  };
}
