import { toHex } from "../../pki/encoding/bytes.ts";
import type { FollowerState } from "../../program/bundle/document-follower.ts";
import type { Identities, IdentityStatus } from "../identity/refreshing-identity.ts";
import { hoursUntil } from "../identity/renewal-plan.ts";
import type { WorkloadFeed } from "../node-mode/workload-registry.ts";
import type { CertificateOutput } from "../secrets/certificate-output.ts";
import type { MountedFiles } from "../secrets/mounted-files.ts";
import type { OwnBundle } from "../trust/own-bundle.ts";
import type { Revocation } from "../trust/revocation.ts";
import type { TrustRoots } from "../trust/trust-roots.ts";
import type { XdsProxy } from "../xds/xds-proxy.ts";
import type { XdsReport } from "../xds/xds-status.ts";

/** The state of an identity, as text for JSON. */
interface IdentityReport {
  readonly spiffeId: string;
  readonly notAfter: string | undefined;
  readonly hoursLeft: number;
  readonly nextAttempt: string;
  readonly issuer: string | undefined;
  readonly names: string | undefined;
  readonly lastError: string | undefined;
}

/** A trusted root, as text for JSON. */
interface RootReport {
  readonly subject: string;
  readonly notAfter: string;
  readonly sha256: string;
}

/** A CRL of the CA, as text for JSON. */
interface CrlReport {
  /** The key identifier of the authority. */
  readonly authority: string;
  readonly number: string | undefined;
  readonly nextUpdate: string | undefined;
}

/** The state of an agent. */
export interface AgentStatus {
  readonly isReady: boolean;
  /**
   * Why the agent is not ready: one sentence for each resource that it cannot serve. A ready agent gives a reason
   * where it follows no roots, or cannot refuse revoked certificates.
   */
  readonly reasons: readonly string[];
  readonly identities: readonly IdentityReport[];
  readonly roots: readonly RootReport[];
  readonly bundle: {
    readonly sequence: number | undefined;
    readonly confirmedAt: string | undefined;
    readonly lastError: string | undefined;
    /** Whether roots, taints and CRLs reach the agent by themselves. */
    readonly isFollowed: boolean;
  };
  readonly revocation: {
    /** Whether verifiers have the CRLs. */
    readonly isUsed: boolean;
    readonly lists: readonly CrlReport[];
    readonly confirmedAt: string | undefined;
    readonly lastError: string | undefined;
  };
  /** The XDS proxy, if the agent has one. */
  readonly xds: XdsReport | undefined;
}

/** The parts of an agent that a report covers. */
export interface ReportedParts {
  readonly identities: Identities;
  readonly mounted: Pick<MountedFiles, "faults">;
  /** The workloads of a node, in node mode. */
  readonly feed: Pick<WorkloadFeed, "fault"> | undefined;
  readonly trust: TrustRoots;
  readonly revocation: Pick<Revocation, "all" | "crls" | "fault">;
  readonly bundle: OwnBundle;
  readonly crlFollower: FollowerState | undefined;
  /** The files of the agent's own certificate, if it writes any. */
  readonly files: Pick<CertificateOutput, "faults"> | undefined;
  readonly xds: XdsProxy | undefined;
  readonly now: Date;
}

/** Reports the state of an agent. It is ready when nothing that it serves is missing. */
export function reportAgent(parts: ReportedParts): AgentStatus {
  const { identities, mounted, feed, trust, revocation, bundle, crlFollower, files, xds, now } =
    parts;
  const all = identities.all();
  const missing = all.filter((identity) => identity.svid === undefined);
  const reasons = [
    ...missing.map(
      ({ status }) => `${status.spiffeId}: ${status.lastError ?? "no certificate yet"}`,
    ),
    ...mounted.faults(now),
    ...(feed?.fault === undefined ? [] : [feed.fault]),
  ];
  return {
    isReady: reasons.length === 0,
    reasons: [
      ...reasons,
      ...[bundle.fault, revocation.fault, ...(files?.faults ?? [])].filter(
        (each) => each !== undefined,
      ),
    ],
    identities: all.map(({ status }) => reportIdentity(status, now)),
    roots: trust.current.map((root) => ({
      subject: root.subject,
      notAfter: root.validToDate.toISOString(),
      sha256: root.fingerprint256,
    })),
    bundle: {
      sequence: trust.sequence,
      confirmedAt: bundle.confirmedAt?.toISOString(),
      lastError: bundle.lastError,
      isFollowed: bundle.isFollowed,
    },
    revocation: {
      isUsed: revocation.crls.length > 0,
      lists: revocation.all.map(reportCrl),
      confirmedAt: crlFollower?.confirmedAt?.toISOString(),
      lastError: crlFollower?.lastError,
    },
    xds: xds?.report(),
  };
}

function reportIdentity(status: IdentityStatus, now: Date): IdentityReport {
  return {
    spiffeId: status.spiffeId,
    notAfter: status.notAfter?.toISOString(),
    hoursLeft: hoursUntil(status.notAfter, now),
    nextAttempt: status.nextAttempt.toISOString(),
    issuer: status.issuer,
    names: status.names,
    lastError: status.lastError,
  };
}

function reportCrl(crl: Revocation["all"][number]): CrlReport {
  const { authorityKeyIdentifier, number, nextUpdate } = crl;
  return {
    authority: authorityKeyIdentifier ? toHex(authorityKeyIdentifier) : "",
    number: number?.toString(),
    nextUpdate: nextUpdate?.toISOString(),
  };
}
