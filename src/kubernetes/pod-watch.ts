import { FetchError } from "../foundation/fetch.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import { smallItems } from "./internal/watch-bound.ts";
import type { Listing } from "./list-pages.ts";
import { notEnded, podSchema, type WatchPods } from "./pods.ts";
import { WatchedCollection } from "./watch.ts";

/** How long the watched pods are trusted after the API server's last response (bounded staleness). */
export const podsTrustedSeconds = 15;

/** The API server ends a watch after this long, so that the watch soon notices a dead connection. */
const watchSeconds = 10;

/** The API server sends whole pods; one with a sidecar may have forty kibibytes. */
const listing: Listing = {
  path: `/api/v1/pods?fieldSelector=${encodeURIComponent(notEnded)}`,
  pageSize: 50,
  maximumRequests: 1000,
};

/** The most octets of names. Beyond it the cluster's own callers wait for lookups. A pod has about 100, at most 900. */
const maximumNameOctets = 8 * 1024 * 1024;

/**
 * Watches the pods of a cluster, as istiod does. A positive answer costs no request, and ends with the pod.
 *
 * The lookup answers instead before the first list is complete, while the API server sends nothing, and for a pod that
 * the watch does not know, such as a new one. The lookup caches a positive answer.
 */
export function createPodWatch(clock: () => Date, endingAll: AbortSignal): WatchPods {
  return ({ cluster, client, failed }, lookup, ending) => {
    const signal = ending ? AbortSignal.any([endingAll, ending]) : endingAll;
    const { places, keep, changed } = createPlaces();
    const pods = WatchedCollection.watch({
      client,
      listing,
      keep,
      changed,
      clock,
      signal,
      watchSeconds,
      bound: { items: smallItems.items, octets: maximumNameOctets, octetsOf },
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
  readonly key: string;
  readonly uid: string;
  readonly place: AccountOnNode;
}

function createPlaces() {
  const places = new Map<string, AccountOnNode>();

  /** Reduces a pod to its key, `namespace/name`, and what is kept: nothing if it has ended or is on no node yet. */
  function keep(object: unknown): readonly [string, KnownPod | undefined] | undefined {
    const parsed = podSchema.safeParse(object);
    if (!parsed.success) return undefined;
    const { namespace, name, uid, account, node, hasEnded } = parsed.data;
    const key = `${namespace}/${name}`;
    if (hasEnded || node === "") return [key, undefined];
    const placed = placeKey(node, { namespace, name: account });
    const place = places.get(placed) ?? { key: placed, account, node, pods: 0 };
    return [key, { key, uid, place }];
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

/** The octets of a pod in memory. Node and account are counted for each pod, although pods share them. */
const octetsOf = ({ key, uid, place }: KnownPod): number =>
  key.length + uid.length + place.key.length + place.account.length + place.node.length;

/** Whether what is known is recent enough. After the clock was set back it is not. */
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
