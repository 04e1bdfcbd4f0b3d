import { FetchError } from "../foundation/json-fetch.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import type { Listing } from "./list-pages.ts";
import type { WatchPods } from "./pods.ts";
import { notEnded, podForm } from "./pods.ts";
import { watchCollection } from "./watch.ts";

/** For how long after the API server was last heard what is known of its pods is taken for true. */
export const podsTrustedSeconds = 15;

/** An API server is heard at least as often, so that one which is cut off is soon missed. */
const watchSeconds = 10;

/** The API server sends whole pods; a proxy beside the workload makes one about forty kibibytes. */
const listing: Listing = {
  path: `/api/v1/pods?fieldSelector=${encodeURIComponent(notEnded)}`,
  pageSize: 50,
  maximumRequests: 1000,
};

/**
 * The pods of a cluster by a watch, as istiod has them: its yes costs no question, and ends as soon
 * as the pod has.
 *
 * Whatever it does not know, it looks up: before all pods have been seen, when the API server has not
 * been heard for a while, and for the pod that has come this moment. A yes of that kind lives for as
 * long as the lookup remembers it.
 */
export function createPodWatch(clock: () => Date, signal: AbortSignal): WatchPods {
  return ({ cluster, client, failed }, lookup) => {
    const { places, keep, changed } = createPlaces();
    const pods = watchCollection({
      ...{ client, listing, keep, changed, clock, signal, watchSeconds },
      failed: (error) => failed(cluster, watchFault(error)),
    });
    const isCurrent = (now: Date): boolean => isFresh(pods.asOf(), now);
    return {
      find: async (namespace, bound, now) => {
        const pod = isCurrent(now) ? pods.items.get(`${namespace}/${bound.name}`) : undefined;
        const isSame = pod?.uid === bound.uid;
        return isSame ? { uid: bound.uid, ...pod.place } : lookup.find(namespace, bound, now);
      },
      isOn: async (node, account, now) =>
        (isCurrent(now) && places.has(placeKey(node, account))) || lookup.isOn(node, account, now),
    };
  };
}

/** Where pods of one account run, and how many: one object for all of them, for they are many. */
interface Place {
  readonly key: string;
  readonly account: string;
  readonly node: string;
  pods: number;
}

/** What is kept of a pod. */
interface KnownPod {
  readonly uid: string;
  readonly place: Place;
}

function createPlaces() {
  const places = new Map<string, Place>();

  /** By namespace and name; nothing is kept of one that has ended or is on no node yet. */
  function keep(object: unknown): readonly [string, KnownPod | undefined] | undefined {
    const parsed = podForm.safeParse(object);
    if (!parsed.success) return undefined;
    const { namespace, name, uid, account, node, hasEnded } = parsed.data;
    if (hasEnded || node === "") return [`${namespace}/${name}`, undefined];
    const key = placeKey(node, { namespace, name: account });
    const place = places.get(key) ?? { key, account, node, pods: 0 };
    return [`${namespace}/${name}`, { uid, place }];
  }

  function changed(before: KnownPod | undefined, after: KnownPod | undefined): void {
    if (after) {
      after.place.pods++;
      places.set(after.place.key, after.place);
    }
    if (before && --before.place.pods === 0) places.delete(before.place.key);
  }

  return { places, keep, changed };
}

/** Nor is a clock that was set back a reason to trust. */
function isFresh(asOf: Date | undefined, now: Date): boolean {
  if (!asOf) return false;
  return Math.abs(now.getTime() - asOf.getTime()) < 1000 * podsTrustedSeconds;
}

function watchFault(error: unknown): FetchError {
  const fault = error instanceof FetchError ? `: it ${error.message}` : "";
  return new FetchError(`does not let Rampart watch its pods${fault}`, { cause: error });
}

const placeKey = (node: string, { namespace, name }: ServiceAccount): string =>
  `${namespace}/${name}@${node}`;
