import * as z from "zod/mini";
import { DnsName } from "../foundation/addresses.ts";
import { createTtlCache } from "../foundation/caches.ts";
import { FetchError } from "../foundation/fetch.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import { addSeconds } from "../pki/x509/validity.ts";
import { type ClusterApi, clusterUnavailable, type ReachableCluster } from "./cluster-api.ts";
import { objectName } from "./names.ts";

/** A Kubernetes object that a token is bound to. */
export interface BoundObject {
  readonly name: string;
  readonly uid: string;
}

/** The Node of a token. It has no UID if the API server did not find the Node when it minted the token. */
export type BoundNode = Pick<BoundObject, "name"> & Partial<BoundObject>;

/** A ServiceAccount, with the pod and the node that its token is bound to. */
export interface BoundAccount {
  readonly account: ServiceAccount;
  /** Kubernetes binds projected tokens to a pod and a node, and other tokens to neither. */
  readonly pod?: BoundObject | undefined;
  readonly node?: BoundNode | undefined;
  /** The `jti` of the token, which the API server's audit log names as well. */
  readonly tokenId?: string | undefined;
}

interface Pod {
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

const nameOrNone = z._default(z.union([objectName, z.literal("")]), "");

const objectSchema = z.object({
  metadata: z.object({
    namespace: z.string().check(z.regex(DnsName.label)),
    name: objectName,
    uid: z.string().check(z.maxLength(64)),
  }),
  spec: z.object({ serviceAccountName: nameOrNone, nodeName: nameOrNone }),
  status: z.prefault(z.object({ phase: z._default(z.string(), "") }), {}),
});

/** Reads an object of the API as a flat {@link Pod}, and drops all other fields. */
export const podSchema = z.pipe(
  objectSchema,
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

/** How long a positive answer is remembered. A negative one is not remembered at all. */
export const podsKnownSeconds = 10;

const maximumRemembered = 4096;

/** The longest response with one pod. The API server stores none above one and a half megabytes. */
const maximumOctets = 2 * 1024 * 1024;

const podListSchema = z.object({ items: z.array(podSchema).check(z.maxLength(64)) });

/** Looks up pods. */
export const Pods = {
  /** Looks up pods by a request for each question, unless a positive answer is at most {@link podsKnownSeconds} old. */
  create({ cluster, send }: ClusterApi): Pods {
    const found = createTtlCache<Pod>(maximumRemembered);
    const instances = createTtlCache<true>(maximumRemembered);
    const unexpectedAnswer = () =>
      clusterUnavailable(cluster, new FetchError("answered something else than asked"));

    async function read<T>(path: string, schema: z.ZodMiniType<T>, now: Date) {
      const json = await send({ path, maximumOctets }, now);
      if (json === undefined) return undefined;
      const parsed = schema.safeParse(json);
      if (!parsed.success) throw unexpectedAnswer();
      return parsed.data;
    }

    return {
      find: async (namespace, { name, uid }, now) => {
        const key = `${namespace}/${name}/${uid}`;
        const known = found.get(key, now);
        if (known) return known;
        const pod = await read(`/api/v1/namespaces/${namespace}/pods/${name}`, podSchema, now);
        if (pod && (pod.namespace !== namespace || pod.name !== name)) throw unexpectedAnswer();
        if (!pod || pod.hasEnded) return undefined;
        const isSettled = pod.uid === uid && pod.node !== "";
        if (isSettled) found.set(key, pod, now, addSeconds(now, podsKnownSeconds));
        return pod;
      },
      isOn: async (node, { namespace, name }, now) => {
        const key = `${namespace}/${name}@${node}`;
        if (instances.get(key, now)) return true;
        const fieldSelector = `spec.nodeName=${node},spec.serviceAccountName=${name},${notEnded}`;
        const query = new URLSearchParams({ fieldSelector, limit: "1" });
        const path = `/api/v1/namespaces/${namespace}/pods?${query}`;
        const list = await read(path, podListSchema, now);
        // Every API server has this collection, so a 404 comes from another server.
        if (!list) throw unexpectedAnswer();
        // The answer may ignore the selector, so each pod is compared with it.
        const isThere = list.items.some(
          (pod) =>
            pod.namespace === namespace &&
            pod.account === name &&
            pod.node === node &&
            !pod.hasEnded,
        );
        if (isThere) instances.set(key, true, now, addSeconds(now, podsKnownSeconds));
        return isThere;
      },
    };
  },
};
