import { createTokenReview } from "../authn/token/token-review.ts";
import type { NodeAuthorizer, TrustedIssuer } from "../authn/trusted-issuer.ts";
import {
  createClaimedReach,
  createPodAuthorizer,
  type NodeReach,
} from "../ca/issuance/node-authorizer.ts";
import { nameAllowList } from "../foundation/text/globs.ts";
import { createPodLookup } from "../kubernetes/pod-lookup.ts";
import type { PodsOf } from "./cluster-pods.ts";
import type { OpenApi } from "./cluster-reach.ts";
import type { IssuerTable, NodeReachSetting } from "./issuer-table.ts";
import type { LastingParts } from "./lasting-parts.ts";

/** The means to ask the API server of an issuer's cluster. */
export interface CheckMeans {
  /** Absent where the issuer has no API server. */
  readonly openApi: OpenApi | undefined;
  /** Absent on platforms that look up each pod. */
  readonly podsOf: PodsOf | undefined;
  readonly lasting: LastingParts;
}

/** Decides which workloads the node proxies of an issuer may name. */
export function nodeAuthorizer(
  table: IssuerTable,
  { openApi, podsOf = (_, lookup) => lookup, lasting }: CheckMeans,
): NodeAuthorizer {
  const { node_checks, node_reach, trusted_node_accounts: nodes } = table;
  if (openApi && node_checks !== "claims") {
    const pods = lasting.pods.of([...placeOf(table), nodes.length > 0], (ending) =>
      podsOf(table, createPodLookup(openApi()), ending),
    );
    return createPodAuthorizer(pods);
  }
  return createClaimedReach(reachesOf(node_reach));
}

/** Only a table without node proxies may lack the setting; then no node reaches anything. */
function reachesOf(setting: NodeReachSetting = []): readonly NodeReach[] {
  if (setting === "anywhere") return [{ isNode: () => true, isNamespace: () => true }];
  return setting.map(({ nodes, namespaces }) => ({
    isNode: nameAllowList(nodes),
    isNamespace: nameAllowList(namespaces),
  }));
}

/** The reviews of an issuer's tokens, where its API server gives any. */
export function reviewOf(
  table: IssuerTable,
  { openApi, lasting }: CheckMeans,
): TrustedIssuer["review"] {
  const { audiences, kubernetes } = table;
  if (!kubernetes || !openApi) return undefined;
  const ask = lasting.reviews.of([...placeOf(table), audiences], () =>
    createTokenReview(audiences, { verified: openApi(), unverified: openApi() }),
  );
  return { order: kubernetes.review, ask };
}

/** An issuer and the way to its API server. */
function placeOf({ issuer, cluster, kubernetes }: IssuerTable): readonly unknown[] {
  return [issuer, cluster, kubernetes?.server, kubernetes?.ca, kubernetes?.credential];
}
