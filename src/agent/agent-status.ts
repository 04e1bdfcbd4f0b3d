import { Hex } from "../pki/encoding/bytes.ts";
import type { FollowerState } from "../program/bundle/document-follower.ts";
import { EnvironmentProxies } from "../program/http/proxies.ts";
import type { LogOutput } from "../program/log-output.ts";
import type { CertificateOutput } from "./certificate-output.ts";
import type { Identities } from "./identity/identities.ts";
import { hoursUntil, type IdentityStatus } from "./identity/refreshing-identity.ts";
import type { WorkloadFeed } from "./node-mode/workload-registry.ts";
import type { MountedFiles } from "./secrets/mounted-files.ts";
import type { OwnBundle } from "./trust/followers.ts";
import type { Revocation } from "./trust/revocation.ts";
import type { TrustRoots } from "./trust/trust-roots.ts";
import type { XdsProxy } from "./xds/xds-proxy.ts";

/** The parts of an agent that its status reports. */
export interface ReportedParts {
  readonly identities: Identities;
  readonly mounted: Pick<MountedFiles, "faults">;
  /** The workloads of a node, in node mode. */
  readonly feed: Pick<WorkloadFeed, "fault"> | undefined;
  readonly trust: TrustRoots;
  readonly revocation: Pick<Revocation, "all" | "crls" | "fault">;
  readonly bundle: OwnBundle;
  readonly crlFollower: FollowerState | undefined;
  readonly files: Pick<CertificateOutput, "faults"> | undefined;
  readonly xds: XdsProxy | undefined;
  readonly logOutput?: Pick<LogOutput, "fault"> | undefined;
  readonly now: Date;
}

/**
 * Reports the state of an agent. It is ready if each identity has a certificate that peers are not known to refuse, and
 * neither the mounted files nor the feed of workloads has a fault.
 */
export function reportAgent(parts: ReportedParts) {
  const { identities, mounted, feed, trust, revocation, bundle, crlFollower, files, xds, now } =
    parts;
  const all = identities.all();
  const reasons = [
    ...all.flatMap(({ spiffeId, fault }) => (fault === undefined ? [] : [`${spiffeId}: ${fault}`])),
    ...mounted.faults(now),
    ...(feed?.fault === undefined ? [] : [feed.fault]),
  ];
  return {
    isReady: reasons.length === 0,
    /**
     * One sentence for each resource that the agent cannot serve, and for each other fault, such as that it does not
     * follow roots. A ready agent may have other faults.
     */
    reasons: [
      ...reasons,
      ...[
        bundle.fault,
        revocation.fault,
        ...(files?.faults ?? []),
        parts.logOutput?.fault(),
      ].filter((each) => each !== undefined),
    ],
    /** Which connections go through a proxy. */
    proxies: EnvironmentProxies.sentences(),
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
      /** Whether the agent follows the published bundle, and so gets new roots, taints and CRLs. */
      isFollowed: bundle.isFollowed,
    },
    revocation: {
      /** Whether verifiers have the CRLs. */
      isUsed: revocation.crls.length > 0,
      lists: revocation.all.map(reportCrl),
      confirmedAt: crlFollower?.confirmedAt?.toISOString(),
      lastError: crlFollower?.lastError,
    },
    xds: xds?.report(),
  };
}

/** The agent's status, as `/status` serves it in JSON. */
export type AgentStatus = ReturnType<typeof reportAgent>;

function reportIdentity(status: IdentityStatus, now: Date) {
  const { notAfter, nextAttempt } = status;
  return {
    ...status,
    notAfter: notAfter?.toISOString(),
    hoursLeft: hoursUntil(notAfter, now),
    nextAttempt: nextAttempt.toISOString(),
  };
}

function reportCrl({ authorityKeyIdentifier, number, nextUpdate }: Revocation["all"][number]) {
  return {
    /** The key identifier of the authority. */
    authority: authorityKeyIdentifier ? Hex.format(authorityKeyIdentifier) : "",
    number: number?.toString(),
    nextUpdate: nextUpdate?.toISOString(),
  };
}
