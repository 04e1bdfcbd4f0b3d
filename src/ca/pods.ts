import * as z from "zod";
import type { BoundObject } from "../authn/caller.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";

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
 * @throws CaError `cluster-unreachable`.
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

const name = z.string().max(253);

/** Whatever else is said of a pod is dropped here. */
export const podForm: z.ZodType<ReportedPod> = z
  .object({
    metadata: z.object({ namespace: name, name, uid: z.string().max(64) }),
    spec: z.object({ serviceAccountName: name.default(""), nodeName: name.default("") }),
    status: z.object({ phase: z.string().default("") }).prefault({}),
  })
  .transform(({ metadata, spec, status }) => ({
    namespace: metadata.namespace,
    name: metadata.name,
    uid: metadata.uid,
    account: spec.serviceAccountName,
    node: spec.nodeName,
    hasEnded: status.phase === "Failed" || status.phase === "Succeeded",
  }));

/** The same, asked of a cluster. */
export const notEnded = "status.phase!=Failed,status.phase!=Succeeded";
