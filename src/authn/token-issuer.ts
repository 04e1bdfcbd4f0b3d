import { waitFor } from "../foundation/pause.ts";
import type { BoundAccount } from "../kubernetes/pods.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import type { IntermediateRights } from "../pki/x509/intermediate.ts";
import type { IssuerKeys } from "./issuer-keys.ts";
import type { TokenReview } from "./token-review.ts";

/**
 * The order in which keys and API server decide on a token.
 *
 * - `after-keys`: the issuer's keys; the API server if they cannot be fetched or the token's is not among them.
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
 * Requires that the pod of a node proxy is where the proxy may act for an account.
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

/** An issuer of ServiceAccount tokens, and the rights of its tokens: one table of `ISSUERS`. */
export interface TokenIssuer {
  /** The `iss` of its tokens, byte for byte. */
  readonly name: string;
  /** The `issuerDigest` of the name, by which a certificate names the issuer that vouched for it. */
  readonly digest: Bytes;
  /** How long after its token a certificate suffices for a renewal, in seconds; 0 for never. */
  readonly renewalSeconds: number;
  /** A token must name one of them. */
  readonly audiences: readonly string[];
  /** The `clusterid` that its callers may claim. */
  readonly cluster: string;
  /** Other names of the cluster, which callers may claim as well. */
  readonly clusterAliases: readonly string[];
  readonly mayVouchFor: (account: ServiceAccount) => boolean;
  /** Whether the account is a node proxy's, which may request the identities of workloads on its node. */
  readonly isNodeAccount: (account: ServiceAccount) => boolean;
  readonly requireNode: NodeAuthorizer;
  /** Whether its callers may have a JWT-SVID for an audience; absent if they may have none. */
  readonly mayAddress?: ((audience: string) => boolean) | undefined;
  /**
   * The DNS names under which an account serves as a gateway; `undefined` for an account that is none.
   * A gateway may also forward its clients' certificates. Absent if no account is a gateway.
   */
  readonly gatewayNames?: ((account: ServiceAccount) => readonly string[] | undefined) | undefined;
  /** Whether a gateway's word for the SPIFFE ID of its client suffices, without the certificate. */
  readonly mayForwardIdentities?: ((account: ServiceAccount) => boolean) | undefined;
  /** The rights of an account as a signer of its cluster; `undefined` for an account that is none. */
  readonly clusterSigner?: ((account: ServiceAccount) => ClusterSigner | undefined) | undefined;
  /** What an account's intermediates may be; `undefined` for an account that gets none. */
  readonly intermediateRights?:
    | ((account: ServiceAccount) => IntermediateRights | undefined)
    | undefined;
  readonly keys: IssuerKeys;
  /** Absent if Rampart has no access to the cluster's API server. */
  readonly review?: Review | undefined;
}

/** Issuers that are asked at once where nobody shows a token. */
const looksAtOnce = 4;

/** A probe waits no longer for issuers that do not answer. What nobody knows by then is no fault. */
const longestLookMilliseconds = 1_000;

/**
 * Why no token can be verified now, one sentence: no issuer's keys are here, or can be fetched, and no API server
 * reviews tokens in their place. It looks by itself, so that a CA without callers finds out, and finds out again once
 * it is over.
 *
 * @param wait Waits for a look that goes on without its request; by default for a second at most.
 */
export function findKeyFault(
  issuers: readonly TokenIssuer[],
  wait: (look: Promise<void>) => Promise<void> = (look) => waitFor(look, longestLookMilliseconds),
): (now: Date) => Promise<string | undefined> {
  return async (now) => {
    const withoutKeys = issuers.filter((each) => !hasKeys(each, now));
    if (withoutKeys.length < issuers.length || issuers.length === 0) return undefined;
    const tried = (each: TokenIssuer): number => failureOf(each, now)?.at.getTime() ?? 0;
    const next = withoutKeys.toSorted((a, b) => tried(a) - tried(b)).slice(0, looksAtOnce);
    // A look that finds no room has others before it, who wait for the same.
    await wait(Promise.allSettled(next.map((each) => lookAt(each, now))).then(() => {}));
    const [failed, ...others] = issuers.map((each) =>
      hasKeys(each, now) ? undefined : failureOf(each, now),
    );
    if (!failed || others.includes(undefined)) return undefined;
    const more = others.length > 0 ? `, and ${others.length} more fail` : "";
    return `${failed.detail}${more}`;
  };
}

const hasKeys = ({ keys, review }: Pick<TokenIssuer, "keys" | "review">, now: Date): boolean =>
  review?.order !== "instead-of-keys" && (!keys.state || keys.state(now).keys.length > 0);

async function lookAt({ keys, review }: TokenIssuer, now: Date): Promise<void> {
  const ofKeys = review?.order === "instead-of-keys" ? undefined : keys.look?.(now);
  await Promise.allSettled([ofKeys, review?.ask.look?.(now)]);
}

/** Why the tokens of an issuer without keys cannot be verified: an API server may decide about them. */
function failureOf(
  { cluster, keys, review }: TokenIssuer,
  now: Date,
): { readonly at: Date; readonly detail: string } | undefined {
  if (review) {
    const failure = review.ask.failure?.();
    return failure && { ...failure, detail: `no token can be verified: ${failure.detail}` };
  }
  const failure = keys.state?.(now).failure;
  const detail = `no issuer's keys can be had: that of cluster ${cluster} ${failure?.detail}`;
  return failure && { at: failure.at, detail };
}
