import * as z from "zod/mini";
import { createTtlCache } from "../foundation/caches.ts";
import { FetchError } from "../foundation/fetch.ts";
import { addSeconds } from "../pki/x509/validity.ts";
import { type ClusterApi, clusterUnavailable } from "./cluster-api.ts";
import { notEnded, type Pod, type Pods, podForm } from "./pods.ts";

/** How long a positive answer is remembered. A negative one is not remembered at all. */
export const podsKnownSeconds = 10;

const maximumRemembered = 4096;

/** The API server sends whole pods, and stores none above one and a half megabytes. */
const maximumOctets = 2 * 1024 * 1024;

const podListForm = z.object({ items: z.array(podForm).check(z.maxLength(64)) });

/** Looks up the pods of a cluster, by one request to its API server for each question. */
export function createPodLookup({ cluster, send }: ClusterApi): Pods {
  const found = createTtlCache<Pod>(maximumRemembered);
  const instances = createTtlCache<true>(maximumRemembered);
  const unexpectedAnswer = () =>
    clusterUnavailable(cluster, new FetchError("answered something else than asked"));

  async function read<T>(path: string, form: z.ZodMiniType<T>, now: Date): Promise<T | undefined> {
    const json = await send({ path, maximumOctets }, now);
    if (json === undefined) return undefined;
    const parsed = form.safeParse(json);
    if (!parsed.success) throw unexpectedAnswer();
    return parsed.data;
  }

  return {
    find: async (namespace, { name, uid }, now) => {
      const key = `${namespace}/${name}/${uid}`;
      const known = found.recall(key, now);
      if (known) return known;
      const pod = await read(`/api/v1/namespaces/${namespace}/pods/${name}`, podForm, now);
      if (pod && (pod.namespace !== namespace || pod.name !== name)) throw unexpectedAnswer();
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
      const list = await read(`/api/v1/namespaces/${namespace}/pods?${query}`, podListForm, now);
      // Every API server has this collection, so another server answered 404.
      if (!list) throw unexpectedAnswer();
      // The answer may ignore the selector, so each pod is compared with it.
      const isThere = list.items.some(
        (pod) =>
          pod.namespace === namespace && pod.account === name && pod.node === node && !pod.hasEnded,
      );
      if (isThere) instances.keep(key, true, addSeconds(now, podsKnownSeconds));
      return isThere;
    },
  };
}
