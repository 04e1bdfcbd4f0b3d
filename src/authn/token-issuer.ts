import type { BoundAccount } from "../kubernetes/pods.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import type { IntermediateRights } from "../pki/x509/intermediate.ts";
import type { IssuerKeys } from "./issuer-keys.ts";
import type { TokenReview } from "./token-review.ts";
import type { SubjectMapping } from "./token-subject.ts";

/**
 * The order in which keys and API server decide on a token.
 *
 * - `after-keys`: the issuer's keys; the API server if they cannot be fetched or the token's key is not among them.
 * - `before-keys`: the keys, then the API server; one of them alone while the other cannot be reached.
 * - `instead-of-keys`: the API server alone.
 */
export type ReviewOrder = "after-keys" | "before-keys" | "instead-of-keys";

/** The review of an issuer's tokens by the API server of its cluster. */
interface Review {
  readonly order: ReviewOrder;
  readonly ask: TokenReview;
}

/**
 * Requires that a node proxy may act for an account, by the node on which the proxy's pod runs.
 *
 * @param account Of a namespace that the proxy's issuer may vouch for.
 * @throws CaError `impersonation-denied`, `cluster-unreachable`, `cluster-busy`.
 */
export type NodeAuthorizer = (
  proxy: BoundAccount,
  account: ServiceAccount,
  now: Date,
) => Promise<void>;

/** The rights of an account that answers Kubernetes' requests for certificates (`rampart signer`). */
export interface ClusterSigner {
  /** Whether it may request the X509-SVID of this account. */
  readonly maySignFor: (account: ServiceAccount) => boolean;
  /** Whether it may request a serving certificate with this DNS name. */
  readonly mayName: (dnsName: string) => boolean;
}

/** What every issuer of tokens has. */
interface AnyTokenIssuer {
  /** The `iss` of its tokens, byte for byte. */
  readonly name: string;
  /**
   * The `issuerDigest` of the name, by which a certificate names the issuer that authenticated its holder. An
   * issuer with `subjects` is named by the digest of one of these instead.
   */
  readonly digest: Bytes;
  /** How many seconds after its holder last showed a token a certificate suffices for a renewal; 0 for never. */
  readonly renewalSeconds: number;
  /** A token must name one of these audiences. */
  readonly audiences: readonly string[];
  /** The `clusterid` that its callers may claim. */
  readonly cluster: string;
  /** Other names of the cluster, which callers may claim as well. */
  readonly clusterAliases: readonly string[];
  readonly mayVouchFor: (account: ServiceAccount) => boolean;
  /** Whether its callers may have a JWT-SVID for an audience; absent if they may have none. */
  readonly mayAddress?: ((audience: string) => boolean) | undefined;
  readonly keys: IssuerKeys;
}

/** The rights that an issuer's accounts may have beyond their own identities. */
interface ClusterRights {
  /** Whether the account is a node proxy's, which may request the identities of workloads on its node. */
  readonly isNodeAccount: (account: ServiceAccount) => boolean;
  readonly requireNode: NodeAuthorizer;
  /**
   * The DNS names under which an account serves as a gateway; `undefined` for an account that is not a gateway. A
   * gateway may also forward its clients' certificates. Absent if no account of the issuer is a gateway.
   */
  readonly gatewayNames?: ((account: ServiceAccount) => readonly string[] | undefined) | undefined;
  /** Whether a gateway's word for the SPIFFE ID of its client suffices, without the certificate. */
  readonly mayForwardIdentities?: ((account: ServiceAccount) => boolean) | undefined;
  /** The rights of an account as a signer of its cluster; `undefined` for an account that is not a signer. */
  readonly clusterSigner?: ((account: ServiceAccount) => ClusterSigner | undefined) | undefined;
  /** What an account's intermediates may be; `undefined` for an account that gets none. */
  readonly intermediateRights?:
    | ((account: ServiceAccount) => IntermediateRights | undefined)
    | undefined;
  /** Absent if Rampart has no access to the cluster's API server. */
  readonly review?: Review | undefined;
}

/** An issuer of ServiceAccount tokens. */
export interface ClusterIssuer extends AnyTokenIssuer, ClusterRights {
  readonly subjects?: undefined;
}

/** An issuer of any other tokens. Its callers have the identities that its table of claims gives them, and no other rights. */
export type SubjectIssuer = AnyTokenIssuer & {
  readonly subjects: SubjectMapping;
} & { readonly [Right in keyof ClusterRights]?: undefined };

/** An issuer of tokens, and the rights of its tokens: one table of `ISSUERS`. */
export type TokenIssuer = ClusterIssuer | SubjectIssuer;
