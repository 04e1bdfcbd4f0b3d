import type { ServiceAccount } from "../pki/spiffe-id.ts";
import type { BoundAccount } from "./bound-account.ts";
import type { IssuerKeys } from "./token/issuer-keys.ts";
import type { TokenReview } from "./token/token-review.ts";

/**
 * Who decides on a token: the issuer's keys, with its API server where they cannot say; or the API
 * server, with the keys where it cannot be reached; or the API server alone.
 */
export type ReviewOrder = "after-keys" | "before-keys" | "instead-of-keys";

/** How an issuer's tokens are put before the API server of its cluster. */
export interface Review {
  readonly order: ReviewOrder;
  readonly ask: TokenReview;
}

/**
 * Requires that the pod of a node proxy is where the proxy may act for an account.
 *
 * @param account Of a namespace that the proxy's issuer may vouch for.
 * @throws CaError `impersonation-denied`, `cluster-unreachable`.
 */
export type NodeAuthorizer = (
  proxy: BoundAccount,
  account: ServiceAccount,
  now: Date,
) => Promise<void>;

/** An issuer of ServiceAccount tokens, and what its tokens are good for: one table of `ISSUERS`. */
export interface TrustedIssuer {
  /** What its tokens say in `iss`, byte for byte. */
  readonly name: string;
  /** A token must name one of them. */
  readonly audiences: readonly string[];
  /** The cluster id that its callers may claim. */
  readonly cluster: string;
  /** Other names of this cluster, as mesh administrators give them. */
  readonly clusterAliases: readonly string[];
  readonly mayVouchFor: (account: ServiceAccount) => boolean;
  /** Whether this account is a node proxy's, which may ask for the identities of others. */
  readonly isNodeAccount: (account: ServiceAccount) => boolean;
  readonly requireNode: NodeAuthorizer;
  /**
   * The DNS names under which this account serves as a gateway, or nothing for one that is none. A
   * gateway may also say whose certificate its client has shown. Absent where no account is a gateway.
   */
  readonly gatewayNames?: ((account: ServiceAccount) => readonly string[] | undefined) | undefined;
  readonly keys: IssuerKeys;
  /** Absent where the cluster has given no access to its API. */
  readonly review?: Review | undefined;
}
