import { applyRoots } from "../../delivery/apply-roots.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import type { KubernetesClient, SendRequest } from "../../kubernetes/client.ts";
import {
  configMapListing,
  type HeldRoots,
  holds,
  namespaceListing,
  parseNamespace,
  parseRootConfigMap,
} from "../../kubernetes/root-config-map.ts";
import { type WatchedCollection, watchCollection } from "../../kubernetes/watch.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { logFault } from "../observability/fault-log.ts";

/** How far the delivery of a bundle to a cluster has come. */
export interface DeliveryState {
  /** Where the bundle is, and where it has yet to come: mostly namespaces. */
  readonly delivered: readonly string[];
  readonly pending: readonly string[];
  /** Whether all such places are known. */
  readonly hasAll: boolean;
}

/** Keeps the trust bundle in places of a cluster. */
export interface RootDelivery {
  readonly stateOf: (bundle: NumberedBundle) => DeliveryState;
  /** Applies what is pending and due. */
  readonly deliver: (bundle: NumberedBundle, now: Date) => Promise<void>;
}

/** A namespace's attempts, so that neither a failure nor a fight becomes a storm. */
interface Attempts {
  readonly last: Date;
  readonly next: Date;
  readonly pauseSeconds: number;
}

const longestPauseSeconds = 60;
const atOnce = 8;

/** @param name Of the ConfigMap. */
export function createRootDelivery(
  client: KubernetesClient,
  name: string,
  log: OperationLog,
  signal: AbortSignal,
): RootDelivery {
  const failed = (error: unknown): void => logFault(log, "watch-failed", error);
  const namespaces = watchCollection({
    client,
    listing: namespaceListing,
    keep: parseNamespace,
    failed,
    signal,
  });
  const configMaps = watchCollection({
    client,
    listing: configMapListing(name),
    keep: (object) => parseRootConfigMap(object, name),
    failed,
    signal,
  });
  const attempts = new Map<string, Attempts>();
  const send: SendRequest = (request) => client.send({ ...request, signal });

  async function apply(namespace: string, bundle: NumberedBundle, now: Date): Promise<void> {
    const before = attempts.get(namespace);
    const isQuiet = !before || now > addSeconds(before.last, 2 * longestPauseSeconds);
    const pauseSeconds = isQuiet ? 1 : Math.min(2 * before.pauseSeconds, longestPauseSeconds);
    attempts.set(namespace, { last: now, next: addSeconds(now, pauseSeconds), pauseSeconds });
    try {
      const place = { namespace, configMap: name, fieldOwner: "rampart-distribute" } as const;
      configMaps.items.set(namespace, await applyRoots(send, place, bundle, now));
    } catch (error) {
      if (!signal.aborted) logFault(log, "root-not-delivered", error, { namespace });
    }
  }

  return {
    stateOf: (bundle) => stateOf(namespaces, configMaps, bundle),
    deliver: async (bundle, now) => {
      forgetGone(attempts, namespaces);
      const { hasAll, pending } = stateOf(namespaces, configMaps, bundle);
      const due = pending.filter((each) => now >= (attempts.get(each)?.next ?? now));
      for (let i = 0; hasAll && i < due.length; i += atOnce) {
        await Promise.all(due.slice(i, i + atOnce).map((each) => apply(each, bundle, now)));
      }
    },
  };
}

function stateOf(
  namespaces: WatchedCollection<boolean>,
  configMaps: WatchedCollection<HeldRoots>,
  bundle: NumberedBundle,
): DeliveryState {
  const wanted = [...namespaces.items].flatMap(([namespace, wants]) => (wants ? [namespace] : []));
  const hasBundle = (namespace: string): boolean => holds(configMaps.items.get(namespace), bundle);
  return {
    delivered: wanted.filter(hasBundle),
    pending: wanted.filter((namespace) => !hasBundle(namespace)),
    hasAll: namespaces.hasAll() && configMaps.hasAll(),
  };
}

function forgetGone(attempts: Map<string, Attempts>, namespaces: WatchedCollection<boolean>): void {
  for (const name of attempts.keys()) if (!namespaces.items.has(name)) attempts.delete(name);
}
