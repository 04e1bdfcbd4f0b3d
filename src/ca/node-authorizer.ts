import * as z from "zod";
import { createBriefMemory } from "../authn/brief-memory.ts";
import type { Caller } from "../authn/caller.ts";
import { FetchError } from "../authn/json-fetch.ts";
import { clusterUnreachable, type KubernetesApi } from "../authn/kubernetes-api.ts";
import type { NodeAuthorizer } from "../authn/trusted-issuer.ts";
import { CaError, type ImpersonationRule } from "../errors.ts";
import { parseServiceAccount, type ServiceAccount } from "../pki/spiffe-id.ts";
import { addSeconds } from "../pki/validity.ts";

/** Denies the identity that a caller names. The rule is for the log. */
export function deny(rule: ImpersonationRule): CaError {
  return new CaError(
    { reason: "impersonation-denied", rule },
    `the caller may not have the identity it names: ${rule}`,
  );
}

/** For how long what a cluster has said of its pods is taken for true. A no is forgotten at once. */
export const podsKnownSeconds = 10;

const maximumKnown = 4096;

const podForm = z.object({
  metadata: z.object({ uid: z.string() }),
  spec: z.object({ serviceAccountName: z.string().default(""), nodeName: z.string().default("") }),
  status: z.object({ phase: z.string().default("") }).prefault({}),
});
const podListForm = z.object({ items: z.array(podForm).max(64) });

type Pod = z.infer<typeof podForm>;

/**
 * Istio's `ClusterNodeAuthorizer`, by questions instead of a watch: the caller is a pod that exists, by
 * name, UID and account, on a node where a pod of the requested account runs or is about to.
 */
export function createPodLookup(cluster: string, api: KubernetesApi): NodeAuthorizer {
  const nodes = createBriefMemory<string>(maximumKnown);
  const instances = createBriefMemory<true>(maximumKnown);

  async function ask<T>(path: string, form: z.ZodType<T>, now: Date): Promise<T | undefined> {
    const json = await api({ path }, now);
    if (json === undefined) return undefined;
    const parsed = form.safeParse(json);
    if (parsed.success) return parsed.data;
    throw clusterUnreachable(cluster, new FetchError("answered something else than asked"));
  }

  async function nodeOf({ account, pod }: Caller, now: Date): Promise<string> {
    // The name goes into a path.
    if (!pod || !parseServiceAccount(account.namespace, pod.name)) throw deny("pod");
    const key = `${account.namespace}/${account.name}/${pod.name}/${pod.uid}`;
    const known = nodes.recall(key, now);
    if (known !== undefined) return known;
    const found = await ask(
      `/api/v1/namespaces/${account.namespace}/pods/${pod.name}`,
      podForm,
      now,
    );
    const node = requirePod(found, account, pod.uid);
    nodes.keep(key, node, addSeconds(now, podsKnownSeconds));
    return node;
  }

  async function requireInstance(account: ServiceAccount, node: string, now: Date): Promise<void> {
    const key = `${account.namespace}/${account.name}@${node}`;
    if (instances.recall(key, now)) return;
    const query = new URLSearchParams({
      fieldSelector: [
        `spec.nodeName=${node}`,
        `spec.serviceAccountName=${account.name}`,
        "status.phase!=Failed",
        "status.phase!=Succeeded",
      ].join(),
      limit: "1",
    });
    const path = `/api/v1/namespaces/${account.namespace}/pods?${query}`;
    const found = await ask(path, podListForm, now);
    if (!found?.items.some((pod) => isInstance(pod, account, node))) throw deny("instance");
    instances.keep(key, true, addSeconds(now, podsKnownSeconds));
  }

  return async (caller, account, now) => {
    const node = await nodeOf(caller, now);
    if (caller.node && caller.node.name !== node) throw deny("node");
    await requireInstance(account, node, now);
  };
}

/** The node of the caller's pod. */
function requirePod(pod: Pod | undefined, account: ServiceAccount, uid: string): string {
  if (!pod || pod.status.phase === "Failed") throw deny("pod");
  if (pod.metadata.uid !== uid) throw deny("pod-uid");
  if (pod.spec.serviceAccountName !== account.name) throw deny("pod-account");
  // A node's name has the form of an account's; it goes into a selector.
  if (!parseServiceAccount(account.namespace, pod.spec.nodeName)) throw deny("node");
  return pod.spec.nodeName;
}

/** As the selector has it: an answer is looked at, not believed. */
function isInstance({ spec, status }: Pod, account: ServiceAccount, node: string): boolean {
  const hasEnded = status.phase === "Failed" || status.phase === "Succeeded";
  return spec.nodeName === node && spec.serviceAccountName === account.name && !hasEnded;
}

/** For which namespaces the proxies of which nodes may speak. */
export interface NodeReach {
  readonly isNode: (name: string) => boolean;
  readonly isNamespace: (name: string) => boolean;
}

/**
 * The same without access to the cluster: the pod and the node that Kubernetes binds into a projected
 * token, and how far they are trusted. That a pod of the account runs there, nobody can say.
 */
export function createClaimedReach(reaches: readonly NodeReach[]): NodeAuthorizer {
  return async ({ pod, node }, { namespace }) => {
    if (!pod) throw deny("pod");
    if (node?.uid === undefined) throw deny("node");
    const { name } = node;
    if (!reaches.some((reach) => reach.isNode(name) && reach.isNamespace(namespace))) {
      throw deny("reach");
    }
  };
}
