import * as z from "zod/mini";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import type { ReachableCluster } from "./cluster-api.ts";

/** An object of Kubernetes that a token is bound to. */
export interface BoundObject {
  readonly name: string;
  readonly uid: string;
}

/** The Node of a token: without a uid when the API server did not find it as it minted the token. */
export type BoundNode = Pick<BoundObject, "name"> & Partial<BoundObject>;

/** A pod, as far as node checks ask for one. */
export interface Pod {
  readonly uid: string;
  /** The name of its ServiceAccount. */
  readonly account: string;
  /** Empty until it is scheduled. */
  readonly node: string;
}

/**
 * What a cluster says of its pods; one that has ended is none.
 *
 * A yes may be as old as the implementation says. A no is never an old one: the pod may have come
 * since. Who cannot know does not guess.
 *
 * @throws CaError `cluster-unreachable`, `cluster-busy`.
 */
export interface Pods {
  /** The pod of this name in a namespace, whether or not its UID is the same. */
  readonly find: (namespace: string, bound: BoundObject, now: Date) => Promise<Pod | undefined>;
  /** Whether a pod of the account runs on the node, or is about to. */
  readonly isOn: (node: string, account: ServiceAccount, now: Date) => Promise<boolean>;
}

/** A pod as its cluster reports it. */
export interface ReportedPod extends Pod {
  readonly namespace: string;
  readonly name: string;
  readonly hasEnded: boolean;
}

const name = z.string().check(z.maxLength(253));
const nameOrNone = z._default(name, "");

const objectForm = z.object({
  metadata: z.object({ namespace: name, name, uid: z.string().check(z.maxLength(64)) }),
  spec: z.object({ serviceAccountName: nameOrNone, nodeName: nameOrNone }),
  status: z.prefault(z.object({ phase: z._default(z.string(), "") }), {}),
});

/** Whatever else is said of a pod is dropped here. */
export const podForm: z.ZodMiniType<ReportedPod> = z.pipe(
  objectForm,
  z.transform(({ metadata, spec, status }) => ({
    namespace: metadata.namespace,
    name: metadata.name,
    uid: metadata.uid,
    account: spec.serviceAccountName,
    node: spec.nodeName,
    hasEnded: status.phase === "Failed" || status.phase === "Succeeded",
  })),
);

/** The same, asked of a cluster. */
export const notEnded = "status.phase!=Failed,status.phase!=Succeeded";

/** How a platform that can keeps up with a cluster's pods; what it does not know, it looks up. */
export type WatchPods = (cluster: ReachableCluster, lookup: Pods) => Pods;
