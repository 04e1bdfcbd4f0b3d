import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { TrustedIssuer } from "../authn/trusted-issuer.ts";
import { outcomesByCluster } from "../delivery/outcomes-by-cluster.ts";
import type { PushOutcome } from "../delivery/push-to-cluster.ts";
import type { RootPush } from "../delivery/root-push.ts";
import {
  type ClusterSchema,
  Cluster_Delivery as Delivery,
} from "../gen/rampart/status/v1/status_pb.ts";

type ClusterInit = MessageInitShape<typeof ClusterSchema>;

/** The longest fault that is shown. */
const longestFault = 500;

/** How far the roots have come in the cluster of each issuer, as the pushes of this process know it. */
export function clusterStatuses(
  issuers: readonly TrustedIssuer[],
  { clusters, outcomes }: Pick<RootPush, "clusters" | "outcomes">,
  sequence: number,
): ClusterInit[] {
  const last = new Map(outcomesByCluster(outcomes()).map((each) => [each.cluster, each]));
  const names = new Set([...issuers.map(({ cluster }) => cluster), ...clusters]);
  return [...names].map((name) => {
    const outcome = last.get(name);
    if (outcome) return { name, ...outcomeStatus(outcome, sequence) };
    const isTarget = clusters.includes(name);
    return { name, delivery: isTarget ? Delivery.UNKNOWN : Delivery.ELSEWHERE };
  });
}

function outcomeStatus(outcome: PushOutcome, sequence: number): ClusterInit {
  const { namespaces, delivered, since, fault } = outcome;
  return {
    delivery: deliveryOf(outcome, sequence),
    sequence: BigInt(outcome.sequence),
    namespaces,
    delivered,
    ...(since && { since: timestampFromDate(since) }),
    ...(fault !== undefined && { fault: fault.slice(0, longestFault) }),
  };
}

function deliveryOf(outcome: PushOutcome, sequence: number): Delivery {
  if (outcome.fault !== undefined) return Delivery.FAILED;
  const isCurrent = outcome.sequence === sequence && outcome.delivered === outcome.namespaces;
  return isCurrent ? Delivery.COMPLETE : Delivery.PENDING;
}
