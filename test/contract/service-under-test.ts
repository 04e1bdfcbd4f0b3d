import type { TokenKey } from "../testkit/callers/tokens.ts";
import type { AuditLine } from "../testkit/log/event-recorder.ts";

/** The issuers that a service under test trusts. Those that answer publish `key`. */
export const issuers = {
  /**
   * Vouches for every namespace; `istio-system:ztunnel` is its node proxy. `istio-system:signer` is its signer
   * for the workloads of `foo` and `pay-*`, and for the services of `foo`.
   */
  cluster: "https://cluster.test",
  /**
   * Of the cluster `team`; vouches for `team-*`; `team-mesh:ztunnel` is its node proxy, `team-mesh:signer` its
   * signer for every namespace.
   */
  team: "https://team.test",
  /** These two never answer a request for their keys. */
  hanging: "https://hanging.test",
  stalled: "https://stalled.test",
  /** Answers a request for its keys with an error. */
  down: "https://down.test",
  /** The API servers of these two review tokens before their keys count. The second server fails. */
  reviewed: "https://reviewed.test",
  busy: "https://busy.test",
} as const;

/** `ISSUERS` of a service under test, without the places of the keys. */
export const issuerTables = {
  cluster: {
    issuer: issuers.cluster,
    trusted_node_accounts: ["istio-system/ztunnel"],
    node_reach: "anywhere",
    cluster_signers: [
      {
        account: "istio-system/signer",
        namespaces: ["foo", "pay-*"],
        dns_names: ["*.foo.svc", "*.foo.svc.cluster.local"],
      },
    ],
    gateways: [{ account: "istio-system/gateway", dns_names: ["gateway.istio-system.svc"] }],
  },
  team: {
    issuer: issuers.team,
    cluster: "team",
    namespaces: ["team-*"],
    trusted_node_accounts: ["team-mesh/ztunnel"],
    node_reach: "anywhere",
    cluster_signers: [{ account: "team-mesh/signer", namespaces: ["*"] }],
    gateways: [{ account: "team-mesh/gateway", dns_names: ["gateway.team-mesh.svc"] }],
  },
  hanging: { issuer: issuers.hanging },
  stalled: { issuer: issuers.stalled },
  down: { issuer: issuers.down },
} as const;

/** The secret that their tables name. */
export const apiCredentialName = "CLUSTER_CREDENTIAL_API";

/**
 * The reviewed issuers of `ISSUERS`, without the places of the keys.
 *
 * @param api The URL below which their API servers stand.
 */
export function reviewedTables(api: string): readonly object[] {
  return (["reviewed", "busy"] as const).map((name) => ({
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

/** The defaults of a service under test: its trust domain, and the lifetime of its longest leaf. */
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
  /** Removes and returns the audit events so far. */
  readonly takeAudits: () => readonly AuditLine[];
}

/** A service that is configured with {@link reviewedTables} as well. */
export interface ReviewingService extends ServiceUnderTest {
  /** The number of questions to the API servers of the reviewed issuers so far. */
  readonly questions: () => Promise<number>;
}

/** The abilities of a platform on which the answers of its service depend. */
export interface PlatformUnderTest {
  /** Whether it can answer native gRPC. A platform that cannot refuses it with an explanation. */
  readonly hasTrailers: boolean;
  /** Whether it remembers what it has issued for a request that a signer of a cluster names. */
  readonly isIdempotent?: boolean;
  /** The address from which the tests call, where the platform knows it. */
  readonly peer?: string;
}

export const origin = "https://ca.test";
export const rpcPath = "/istio.v1.auth.IstioCertificateService/CreateCertificate";

/** The text of a body of any type. `Response.text` would make workerd warn of a type that is not text. */
export async function textOf(response: Response): Promise<string> {
  return new TextDecoder().decode(await response.arrayBuffer());
}
