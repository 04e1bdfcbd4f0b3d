import * as z from "zod/mini";
import { FetchError } from "../foundation/json-fetch.ts";
import { createTtlCache } from "../foundation/ttl-cache.ts";
import { addSeconds } from "../pki/x509/validity.ts";
import { type ClusterApi, clusterUnavailable } from "./cluster-api.ts";
import { notEnded, type Pod, type Pods, podForm } from "./pods.ts";

/** For how long a yes is taken for true. A no is forgotten at once. */
export const podsKnownSeconds = 10;

const maximumKnown = 4096;

/** Whole pods come, and Kubernetes takes them up to a megabyte and a half. */
const maximumOctets = 2 * 1024 * 1024;

const podListForm = z.object({ items: z.array(podForm).check(z.maxLength(64)) });

/** The pods of a cluster by questions to its API server, each as it comes up. */
export function createPodLookup({ cluster, send }: ClusterApi): Pods {
  const found = createTtlCache<Pod>(maximumKnown);
  const instances = createTtlCache<true>(maximumKnown);
  const notAsAsked = () =>
    clusterUnavailable(cluster, new FetchError("answered something else than asked"));

  async function ask<T>(path: string, form: z.ZodMiniType<T>, now: Date): Promise<T | undefined> {
    const json = await send({ path, maximumOctets }, now);
    if (json === undefined) return undefined;
    const parsed = form.safeParse(json);
    if (!parsed.success) throw notAsAsked();
    return parsed.data;
  }

  return {
    find: async (namespace, { name, uid }, now) => {
      const key = `${namespace}/${name}/${uid}`;
      const known = found.recall(key, now);
      if (known) return known;
      const pod = await ask(`/api/v1/namespaces/${namespace}/pods/${name}`, podForm, now);
      if (pod && (pod.namespace !== namespace || pod.name !== name)) throw notAsAsked();
      if (!pod || pod.hasEnded) return undefined;
      const isSettled = pod.uid === uid && pod.node !== "";
      if (isSettled) found.keep(key, pod, addSeconds(now, podsKnownSeconds));
      return pod;
    },
    isOn: async (node, { namespace, name }, now) => {
      const key = `${namespace}/${name}@${node}`;
      if (instances.recall(key, now)) return true;
      const fieldSelector = `spec.nodeName=${node},spec.serviceAccountName=${name},${notEnded}`;
      const query = new URLSearchParams({ fieldSelector, limit: "1" });
      const list = await ask(`/api/v1/namespaces/${namespace}/pods?${query}`, podListForm, now);
      // A collection is always there; where it is not, that was no API server.
      if (!list) throw notAsAsked();
      // As the selector has it: an answer is looked at, not believed.
      const isThere = list.items.some(
        (pod) =>
          pod.namespace === namespace && pod.account === name && pod.node === node && !pod.hasEnded,
      );
      if (isThere) instances.keep(key, true, addSeconds(now, podsKnownSeconds));
      return isThere;
    },
  };
}
