import type { TokenKey } from "../testkit/callers/tokens.ts";
import type { AuditLine } from "../testkit/event-recorder.ts";

/** The issuers that a service under test trusts. Those that answer publish `key`. */
export const issuers = {
  /** Vouches for every namespace; `istio-system:ztunnel` is its node proxy. */
  cluster: "https://cluster.test",
  /** Of the cluster `team`; vouches for `team-*`; `team-mesh:ztunnel` is its node proxy. */
  team: "https://team.test",
  /** Two that never answer when they are asked for their keys. */
  hanging: "https://hanging.test",
  stalled: "https://stalled.test",
  /** Answers with an error when it is asked for its keys. */
  down: "https://down.test",
  /** Three whose API servers review tokens before the keys count; those of two are in trouble. */
  reviewed: "https://reviewed.test",
  busy: "https://busy.test",
  away: "https://away.test",
} as const;

/** `ISSUERS` of a service under test, but for where the keys are. */
export const issuerTables = {
  cluster: {
    issuer: issuers.cluster,
    trusted_node_accounts: ["istio-system/ztunnel"],
    node_reach: "anywhere",
  },
  team: {
    issuer: issuers.team,
    cluster: "team",
    namespaces: ["team-*"],
    trusted_node_accounts: ["team-mesh/ztunnel"],
    node_reach: "anywhere",
  },
  hanging: { issuer: issuers.hanging },
  stalled: { issuer: issuers.stalled },
  down: { issuer: issuers.down },
} as const;

/** The secret of their tables. */
export const apiCredentialName = "CLUSTER_CREDENTIAL_API";

/** The rest of `ISSUERS`, but for where the keys are. @param api Under it stand their API servers. */
export function reviewedTables(api: string): readonly object[] {
  return (["reviewed", "busy", "away"] as const).map((name) => ({
    issuer: issuers[name],
    cluster: name,
    namespaces: ["foo"],
    kubernetes: {
      server: `${api}/${name}`,
      credential: apiCredentialName,
      review: "before-keys",
    },
  }));
}

/** The trust domain of a service under test, and its longest leaf: the default. */
export const trustDomain = "cluster.local";
export const maximumSeconds = 7_776_000;

/**
 * A running CA of {@link trustDomain} with one self-signed authority that signs, which trusts
 * {@link issuers}.
 */
export interface ServiceUnderTest {
  readonly send: (request: Request) => Promise<Response>;
  readonly key: TokenKey;
  /** The instant that the service takes for now. */
  readonly now: () => Date;
  /** The audit events since they were last taken. */
  readonly takeAudits: () => readonly AuditLine[];
}

/** One that is configured with {@link reviewedTables} as well. */
export interface ReviewingService extends ServiceUnderTest {
  /** How often the API servers of the reviewed issuers were asked. */
  readonly questions: () => Promise<number>;
}

/** What a platform can do, and so what its service answers. */
export interface Platform {
  /** Whether it can speak native gRPC; one that cannot refuses it in words. */
  readonly hasTrailers: boolean;
}

export const origin = "https://ca.test";
export const rpcPath = "/istio.v1.auth.IstioCertificateService/CreateCertificate";

/** The text of a body that does not call itself text, about which workerd would warn. */
export async function textOf(response: Response): Promise<string> {
  return new TextDecoder().decode(await response.arrayBuffer());
}
