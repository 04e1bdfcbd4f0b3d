import * as z from "zod/mini";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import type { ReachableCluster } from "./cluster-api.ts";

/** A Kubernetes object that a token is bound to. */
export interface BoundObject {
  readonly name: string;
  readonly uid: string;
}

/** The Node of a token. It has no UID if the API server did not find the Node when it minted the token. */
export type BoundNode = Pick<BoundObject, "name"> & Partial<BoundObject>;

/** A pod, as far as node checks need it. */
export interface Pod {
  readonly uid: string;
  /** The name of its ServiceAccount. */
  readonly account: string;
  /** Empty until it is scheduled. */
  readonly node: string;
}

/**
 * The pods of a cluster, without those that have ended.
 *
 * A positive answer may be as old as the implementation says. A negative answer is never old, because
 * the pod may have been created since. An implementation that cannot know throws.
 *
 * @throws CaError `cluster-unreachable`, `cluster-busy`.
 */
export interface Pods {
  /** The pod of this name in a namespace, whether or not its UID is the same. */
  readonly find: (namespace: string, bound: BoundObject, now: Date) => Promise<Pod | undefined>;
  /** Whether a pod of the account is scheduled to the node. */
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

/** Reads a pod, and drops all other fields. */
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

/** The field selector of the pods that have not ended. */
export const notEnded = "status.phase!=Failed,status.phase!=Succeeded";

/** Watches the pods of a cluster, until a signal ends it. `lookup` answers what the watch does not know. */
export type WatchPods = (cluster: ReachableCluster, lookup: Pods, ending?: AbortSignal) => Pods;
