import { Backoff, backoffs } from "../foundation/backoff.ts";
import type { OperationLog } from "../foundation/events.ts";
import { KubernetesClient, type SendRequest } from "../kubernetes/client.ts";
import { WatchedCollection } from "../kubernetes/watch.ts";
import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";
import {
  configMapListing,
  HeldRoots,
  namespaceListing,
  parseNamespace,
  parseRootConfigMap,
} from "./root-config-map.ts";
import { applyRoots, type DeliveryState, type RootDelivery } from "./root-delivery.ts";

/** The attempts to write one content. Their pauses grow: conflicting writers would cause a write loop. */
interface Attempts {
  readonly pem: string;
  readonly last: Date;
  readonly next: Date;
  readonly count: number;
}

const quietMilliseconds = 120_000;
const atOnce = 8;

interface ConfigMapDelivery extends RootDelivery {
  /** Whether a namespace holds something else than nothing and this content. */
  readonly holdsOther: (namespace: string, content: NumberedBundle | undefined) => boolean;
  /** Applies a content to one namespace, whatever its pause. A failure is logged. */
  readonly apply: (namespace: string, content: NumberedBundle, now: Date) => Promise<void>;
}

interface DeliveryOptions {
  /** Whether a namespace may have the bundle yet. */
  readonly mayHave?: (namespace: string, bundle: NumberedBundle) => boolean;
  /** Comes before each write to a namespace, and after it: the API server may have come back in between. */
  readonly beside?: (namespace: string, now: Date) => Promise<void>;
  /** Stands for PEM in memory: each of a thousand ConfigMaps may have a megabyte, of CRLs or of a tenant. */
  readonly digest?: (pem: string) => string;
}

/**
 * Keeps the trust bundle in the ConfigMap of every namespace, by watches. It applies the bundle where the
 * ConfigMap is missing or differs, and deletes nothing.
 *
 * @param configMap The name of the ConfigMaps.
 */
export function createConfigMapDelivery(
  client: KubernetesClient,
  configMap: string,
  log: OperationLog,
  signal: AbortSignal,
  { mayHave = () => true, beside, digest = (pem) => pem }: DeliveryOptions = {},
): ConfigMapDelivery {
  const digested = <Held extends { readonly pem: string }>(held: Held): Held => ({
    ...held,
    pem: digest(held.pem),
  });
  const known = new WeakMap<NumberedBundle, NumberedBundle>();
  const wanted = (bundle: NumberedBundle): NumberedBundle => {
    const digests = known.get(bundle) ?? digested(bundle);
    known.set(bundle, digests);
    return digests;
  };
  const failed = (error: unknown): void => KubernetesClient.logFault(log, "watch-failed", error);
  const namespaces = WatchedCollection.watch({
    client,
    failed,
    signal,
    listing: namespaceListing,
    keep: parseNamespace,
  });
  const configMaps = WatchedCollection.watch({
    client,
    failed,
    signal,
    listing: configMapListing(configMap),
    keep: (object) => {
      const [namespace, held] = parseRootConfigMap(object, configMap) ?? [];
      return namespace !== undefined && held ? [namespace, digested(held)] : undefined;
    },
  });
  const attempts = new Map<string, Attempts>();
  const send: SendRequest = (request) => client.send({ ...request, signal });

  async function apply(namespace: string, bundle: NumberedBundle, now: Date): Promise<void> {
    attempts.set(namespace, nextAttempts(attempts.get(namespace), bundle, now));
    await beside?.(namespace, now);
    const { items } = configMaps;
    const before = items.get(namespace);
    try {
      const place = { namespace, configMap, fieldOwner: "rampart-distribute" } as const;
      const stored = await applyRoots(send, place, bundle, now);
      // The watch may already have seen a later write of somebody else.
      if (items.get(namespace) === before) items.set(namespace, digested(stored));
      await beside?.(namespace, now);
    } catch (error) {
      if (!signal.aborted)
        KubernetesClient.logFault(log, "root-not-delivered", error, { namespace });
    }
  }

  return {
    holdsOther: (namespace, content) => {
      const { pem = "" } = configMaps.items.get(namespace) ?? {};
      return pem !== "" && pem !== (content && wanted(content).pem);
    },
    apply,
    stateOf: (bundle) => stateOf(namespaces, configMaps, wanted(bundle)),
    deliver: async (bundle, now) => {
      forgetGone(attempts, namespaces);
      const { hasAll, pending } = stateOf(namespaces, configMaps, wanted(bundle));
      const due = pending.filter((each) => {
        const before = attempts.get(each);
        return (before?.pem !== bundle.pem || now >= before.next) && mayHave(each, bundle);
      });
      for (let i = 0; hasAll && i < due.length; i += atOnce) {
        await Promise.all(due.slice(i, i + atOnce).map((each) => apply(each, bundle, now)));
      }
    },
  };
}

/**
 * The pauses begin again with the shortest for another content, and for a namespace that has needed no attempt for a
 * while.
 */
function nextAttempts(before: Attempts | undefined, { pem }: NumberedBundle, now: Date): Attempts {
  const isOver = !before || now.getTime() > before.last.getTime() + quietMilliseconds;
  const count = isOver || before.pem !== pem ? 1 : before.count + 1;
  const next = new Date(now.getTime() + Backoff.milliseconds(backoffs.repair, count));
  return { pem, last: now, next, count };
}

function stateOf(
  namespaces: WatchedCollection<boolean>,
  configMaps: WatchedCollection<HeldRoots>,
  bundle: NumberedBundle,
): DeliveryState {
  const wanted = [...namespaces.items].flatMap(([namespace, wants]) => (wants ? [namespace] : []));
  const hasBundle = (namespace: string): boolean =>
    HeldRoots.hold(configMaps.items.get(namespace), bundle);
  return {
    delivered: wanted.filter(hasBundle),
    pending: wanted.filter((namespace) => !hasBundle(namespace)),
    hasAll: namespaces.hasAll() && configMaps.hasAll(),
    fault: watchFault(namespaces.fault() ?? configMaps.fault()),
  };
}

const watchFault = (why: string | undefined): string | undefined =>
  why && `changes of the cluster are not seen: the API server ${why}`;

function forgetGone(attempts: Map<string, Attempts>, namespaces: WatchedCollection<boolean>): void {
  for (const name of attempts.keys()) if (!namespaces.items.has(name)) attempts.delete(name);
}
