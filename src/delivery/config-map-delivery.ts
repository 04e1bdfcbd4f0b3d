import { Backoff } from "../foundation/backoff.ts";
import { isRecent } from "../foundation/caches.ts";
import type { OperationLog } from "../foundation/events.ts";
import { KubernetesClient, type SendRequest } from "../kubernetes/client.ts";
import { WatchedCollection } from "../kubernetes/watch.ts";
import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";
import {
  applyRoots,
  configMapListing,
  HeldRoots,
  namespaceListing,
  parseNamespace,
  parseRootConfigMap,
} from "./root-config-map.ts";

/** How far the delivery of a bundle to a cluster has come. */
export interface DeliveryState {
  /** The names of the objects, mostly namespaces, that have the bundle, and of those that do not yet. */
  readonly delivered: readonly string[];
  readonly pending: readonly string[];
  /** Whether every list of the cluster was read completely. */
  readonly hasAll: boolean;
  /** Why changes of the cluster are not seen, if a watch keeps failing. */
  readonly fault?: string | undefined;
}

/** Keeps the trust bundle in one cluster: in ConfigMaps, or in a ClusterTrustBundle. */
export interface RootDelivery {
  readonly stateOf: (bundle: NumberedBundle) => DeliveryState;
  /** Applies the bundle wherever it is pending and due. A failure is logged. */
  readonly deliver: (bundle: NumberedBundle, now: Date) => Promise<void>;
}

/** The attempts to write one content. Their pauses grow: conflicting writers would cause a write loop. */
interface Attempts {
  readonly pem: string;
  readonly last: Date;
  readonly pauseSeconds: number;
  readonly count: number;
}

const quietMilliseconds = 120_000;
const atOnce = 8;

interface DeliveryOptions {
  /** Whether a namespace may have the bundle yet. */
  readonly mayHave?: (namespace: string, bundle: NumberedBundle) => boolean;
  /** Called before each write to a namespace, and again after it: the API server may have come back in between. */
  readonly beside?: (namespace: string, now: Date) => Promise<void>;
  /** Reduces PEM that is kept in memory: each of a thousand ConfigMaps may have a megabyte, of CRLs or of a tenant. */
  readonly digest?: (pem: string) => string;
}

/**
 * Keeps a bundle in the ConfigMap of every namespace, by watches that begin at once and end with the signal. Only
 * {@link deliver} and {@link apply} write, where the ConfigMap is missing or differs; nothing is deleted.
 */
export class ConfigMapDelivery implements RootDelivery {
  readonly #configMap: string;
  readonly #log: OperationLog;
  readonly #signal: AbortSignal;
  readonly #options: DeliveryOptions;
  readonly #send: SendRequest;
  readonly #namespaces: WatchedCollection<boolean>;
  readonly #configMaps: WatchedCollection<HeldRoots>;
  readonly #attempts = new Map<string, Attempts>();
  readonly #wanted = new WeakMap<NumberedBundle, NumberedBundle>();

  /** @param configMap The name of the ConfigMaps. */
  constructor(
    client: KubernetesClient,
    configMap: string,
    log: OperationLog,
    signal: AbortSignal,
    options: DeliveryOptions = {},
  ) {
    this.#configMap = configMap;
    this.#log = log;
    this.#signal = signal;
    this.#options = options;
    this.#send = (request) => client.send({ ...request, signal });
    const failed = (error: unknown): void => KubernetesClient.logFault(log, "watch-failed", error);
    const watched = { client, failed, signal };
    this.#namespaces = WatchedCollection.watch({
      ...watched,
      listing: namespaceListing,
      keep: parseNamespace,
    });
    this.#configMaps = WatchedCollection.watch({
      ...watched,
      listing: configMapListing(configMap),
      keep: (object) => {
        const [namespace, held] = parseRootConfigMap(object, configMap) ?? [];
        return namespace !== undefined && held ? [namespace, this.#digested(held)] : undefined;
      },
    });
  }

  /** Whether a namespace has PEM other than that of `content`; `false` for a namespace without any. */
  holdsOther(namespace: string, content: NumberedBundle | undefined): boolean {
    const { pem = "" } = this.#configMaps.items.get(namespace) ?? {};
    return pem !== "" && pem !== (content && this.#wantedOf(content).pem);
  }

  /** Compares the watched ConfigMaps with the bundle. */
  stateOf(bundle: NumberedBundle): DeliveryState {
    return stateOf(this.#namespaces, this.#configMaps, this.#wantedOf(bundle));
  }

  /**
   * Applies the bundle wherever it is missing, an attempt is due and {@link DeliveryOptions.mayHave} allows it;
   * nothing before all lists are complete.
   */
  async deliver(bundle: NumberedBundle, now: Date): Promise<void> {
    const { mayHave = () => true } = this.#options;
    forgetGone(this.#attempts, this.#namespaces);
    const { hasAll, pending } = this.stateOf(bundle);
    const due = pending.filter((each) => {
      const before = this.#attempts.get(each);
      const isTried = before?.pem === bundle.pem && isRecent(before.last, before.pauseSeconds, now);
      return !isTried && mayHave(each, bundle);
    });
    for (let i = 0; hasAll && i < due.length; i += atOnce) {
      await Promise.all(due.slice(i, i + atOnce).map((each) => this.apply(each, bundle, now)));
    }
  }

  /** Applies a content to one namespace, whatever its pause. A failed write is logged. */
  async apply(namespace: string, bundle: NumberedBundle, now: Date): Promise<void> {
    const { beside } = this.#options;
    this.#attempts.set(namespace, nextAttempts(this.#attempts.get(namespace), bundle, now));
    await beside?.(namespace, now);
    const { items } = this.#configMaps;
    const before = items.get(namespace);
    try {
      const place = {
        namespace,
        configMap: this.#configMap,
        fieldOwner: "rampart-distribute",
      } as const;
      const stored = await applyRoots(this.#send, place, bundle, now);
      // If the watch has seen another write meanwhile, its item stays.
      if (items.get(namespace) === before) items.set(namespace, this.#digested(stored));
      await beside?.(namespace, now);
    } catch (error) {
      if (!this.#signal.aborted)
        KubernetesClient.logFault(this.#log, "root-not-delivered", error, { namespace });
    }
  }

  #digested<Held extends { readonly pem: string }>(held: Held): Held {
    const { digest = (pem) => pem } = this.#options;
    return { ...held, pem: digest(held.pem) };
  }

  /** A bundle with its PEM reduced by {@link DeliveryOptions.digest}, computed once. */
  #wantedOf(bundle: NumberedBundle): NumberedBundle {
    const known = this.#wanted.get(bundle) ?? this.#digested(bundle);
    this.#wanted.set(bundle, known);
    return known;
  }
}

/**
 * The pauses begin again with the shortest for another content, and for a namespace that has needed no attempt for a
 * while.
 */
function nextAttempts(before: Attempts | undefined, { pem }: NumberedBundle, now: Date): Attempts {
  const isOver = !before || now.getTime() > before.last.getTime() + quietMilliseconds;
  const count = isOver || before.pem !== pem ? 1 : before.count + 1;
  const pauseSeconds = Backoff.milliseconds(Backoff.usual.repair, count) / 1000;
  return { pem, last: now, pauseSeconds, count };
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
