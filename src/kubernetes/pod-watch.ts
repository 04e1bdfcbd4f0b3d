import { FetchError } from "../foundation/fetch.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import type { Listing } from "./list-pages.ts";
import { notEnded, podForm, type WatchPods } from "./pods.ts";
import { watchCollection } from "./watch.ts";

/** How long the known pods count as current after the API server's last answer. */
export const podsTrustedSeconds = 15;

/** The API server ends a watch after this long, so that the watch soon notices a dead connection. */
const watchSeconds = 10;

/** The API server sends whole pods; one with a sidecar may have forty kibibytes. */
const listing: Listing = {
  path: `/api/v1/pods?fieldSelector=${encodeURIComponent(notEnded)}`,
  pageSize: 50,
  maximumRequests: 1000,
};

/**
 * Watches the pods of a cluster, as istiod does. A positive answer costs no request, and ends as soon
 * as the pod does.
 *
 * The lookup answers where the watch cannot. That is before the first list is complete, after a silence of
 * the API server, and for a pod that was just created. The lookup caches a positive answer.
 */
export function createPodWatch(clock: () => Date, endingAll: AbortSignal): WatchPods {
  return ({ cluster, client, failed }, lookup, ending) => {
    const signal = ending ? AbortSignal.any([endingAll, ending]) : endingAll;
    const { places, keep, changed } = createPlaces();
    const pods = watchCollection({
      client,
      listing,
      keep,
      changed,
      clock,
      signal,
      watchSeconds,
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

/** A node on which pods of an account run, and their number. The pods share one object to save memory. */
interface AccountOnNode {
  readonly key: string;
  readonly account: string;
  readonly node: string;
  pods: number;
}

/** The part of a pod that the watch keeps. */
interface KnownPod {
  readonly uid: string;
  readonly place: AccountOnNode;
}

function createPlaces() {
  const places = new Map<string, AccountOnNode>();

  /** The key is namespace and name. A pod that has ended, or that is on no node yet, is not kept. */
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

/** A clock that was set back does not make old knowledge fresh. */
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
