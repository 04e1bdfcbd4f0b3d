import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { ConnectError } from "@connectrpc/connect";
import type { TrustedIssuer } from "../authn/trusted-issuer.ts";
import type { Authorities } from "../ca/authorities.ts";
import type { AuthorityView } from "../ca/authority-view.ts";
import type { Configuration } from "../config/configuration.ts";
import type { RootPush } from "../delivery/root-push.ts";
import { CaError } from "../foundation/errors.ts";
import {
  type GetStatusResponse,
  GetStatusResponseSchema,
  type Issuance,
  IssuanceSchema,
  LogState,
  type RootSchema,
  type SearchLogResponse,
} from "../gen/rampart/status/v1/status_pb.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { fingerprintOf } from "../pki/encoding/fingerprint.ts";
import { parseCertificate } from "../pki/x509/certificate.ts";
import { displayedName } from "../pki/x509/distinguished-name.ts";
import { signerStatus } from "./authorities.ts";
import { type CheckedConfiguration, type Checkups, createCheckups } from "./checkup.ts";
import { clusterStatuses } from "./clusters.ts";
import { issuerStatus } from "./issuers.ts";
import type { LogSearch } from "./log-search.ts";

/** The parts of a configuration that the status reads. */
export type ShownConfiguration = Pick<Configuration, "trustDomain"> & CheckedConfiguration;

/** The parts of a CA that the status reads. Reading them costs no request to anybody. */
export interface StatusSources {
  readonly configuration: ShownConfiguration;
  /** Such as `rampart serve`. */
  readonly program: string;
  /** The authorities by the name of their signer; those without a name come first. */
  readonly signers: ReadonlyMap<string, Authorities>;
  readonly issuers: readonly TrustedIssuer[];
  readonly push: Pick<RootPush, "clusters" | "outcomes">;
  readonly crlPush: Pick<RootPush, "outcomes">;
  /** Warnings beside those of the authorities, one sentence each. */
  readonly troubles: () => readonly string[];
  /** The calls of the last day; absent where nothing counts them. It may throw a ConnectError. */
  readonly issuance?: ((now: Date) => Issuance | Promise<Issuance>) | undefined;
  /** Present where entries may be read. */
  readonly logSearch?: LogSearch | undefined;
  /** Whether certificates are logged. */
  readonly isLogged: boolean;
}

/** The status of a CA. */
export interface Status {
  readonly at: (now: Date) => Promise<GetStatusResponse>;
  /** Absent where no entry may be read. */
  readonly searchLog: ((query: string, limit: number) => Promise<SearchLogResponse>) | undefined;
}

export function createStatus(sources: StatusSources): Status {
  const { logSearch } = sources;
  const checkups = createCheckups(sources);
  return {
    at: (now) => statusAt(sources, checkups, now),
    searchLog: logSearch && ((query, limit) => logSearch.search({ query, limit })),
  };
}

async function statusAt(
  sources: StatusSources,
  checkups: Checkups,
  now: Date,
): Promise<GetStatusResponse> {
  const { program, issuers, push } = sources;
  const { views, faults } = await viewsAt(sources.signers, now);
  const own = views.get("");
  const sequence = own?.sequence ?? 0;
  return create(GetStatusResponseSchema, {
    now: timestampFromDate(now),
    trustDomain: sources.configuration.trustDomain,
    program,
    ready: own?.issuer !== undefined && own.trustBundle.roots.length > 0,
    needsAttention: [...faults, ...attentionIn(views), ...sources.troubles()],
    signers: await Promise.all([...views].map(([name, view]) => signerStatus(name, view, now))),
    trustBundle: {
      sequence: BigInt(sequence),
      roots: await Promise.all((own?.trustBundle.roots ?? []).map(rootStatus)),
    },
    clusters: clusterStatuses(issuers, push, sequence),
    issuers: issuers.map(issuerStatus),
    issuance: await issuanceOf(sources, now),
    checkup: checkups.at(views, now),
    log: logStateOf(sources),
  });
}

const notCounted =
  "Calls are not counted here. Workers Logs has a line for each, a dataset of Analytics Engine that is bound as CALL_COUNTS counts them by cluster and outcome, and an issuance log counts what was issued.";

async function issuanceOf({ issuance }: StatusSources, now: Date): Promise<Issuance> {
  try {
    return (await issuance?.(now)) ?? create(IssuanceSchema, { scope: notCounted });
  } catch (error) {
    if (error instanceof ConnectError) return create(IssuanceSchema, { scope: error.rawMessage });
    throw error;
  }
}

function logStateOf({ isLogged, logSearch }: StatusSources): LogState {
  if (!isLogged) return LogState.OFF;
  return logSearch ? LogState.READABLE : LogState.CLOSED;
}

interface Views {
  readonly views: ReadonlyMap<string, AuthorityView>;
  readonly faults: readonly string[];
}

/** A store that cannot be read leaves its signer out, and the rest of the page still says something. */
async function viewsAt(signers: StatusSources["signers"], now: Date): Promise<Views> {
  const views = new Map<string, AuthorityView>();
  const faults = new Set<string>();
  for (const [name, authorities] of signers) {
    try {
      views.set(name, await authorities.at(now));
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

function rootStatus(der: Bytes): MessageInitShape<typeof RootSchema> {
  const fingerprint = fingerprintOf(der);
  try {
    const { subject, validity } = parseCertificate(der).toBeSigned;
    return {
      subject: displayedName(subject),
      fingerprint,
      notBefore: timestampFromDate(validity.notBefore),
      notAfter: timestampFromDate(validity.notAfter),
    };
  } catch (error) {
    if (error instanceof DerError) return { fingerprint };
    throw error;
  }
}
