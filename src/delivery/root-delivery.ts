import { FetchError } from "../foundation/fetch.ts";
import { maximumObjectOctets, type SendRequest } from "../kubernetes/client.ts";
import {
  type HeldRoots,
  holds,
  parseRootConfigMap,
  rootConfigMap,
  rootConfigMapPath,
} from "../kubernetes/root-config-map.ts";
import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";

/** How far the delivery of a bundle to a cluster has come. */
export interface DeliveryState {
  /** The places that have the bundle, and those that do not yet: mostly namespaces. */
  readonly delivered: readonly string[];
  readonly pending: readonly string[];
  /** Whether all places of the cluster are known. */
  readonly hasAll: boolean;
}

/** Keeps the trust bundle in places of one cluster. */
export interface RootDelivery {
  readonly stateOf: (bundle: NumberedBundle) => DeliveryState;
  /** Applies the bundle wherever it is pending and due. A failure is logged. */
  readonly deliver: (bundle: NumberedBundle, now: Date) => Promise<void>;
}

/** A ConfigMap of roots, and the program that writes it. */
interface RootsPlace {
  readonly namespace: string;
  readonly configMap: string;
  /** A cluster shows it beside the fields, so that an operator sees which program has written them. */
  readonly fieldOwner: "rampart-ca" | "rampart-distribute";
}

/**
 * Applies a bundle to the ConfigMap of a namespace, whatever its fields' owner was before.
 *
 * @returns The roots that the API server has stored.
 * @throws FetchError also where it has stored something else, as an admission webhook may make it.
 */
export async function applyRoots(
  send: SendRequest,
  { namespace, configMap, fieldOwner }: RootsPlace,
  bundle: NumberedBundle,
  now: Date,
): Promise<HeldRoots> {
  const answer = await send({
    method: "PATCH",
    path: `${rootConfigMapPath(configMap, namespace)}?fieldManager=${fieldOwner}&force=true`,
    body: rootConfigMap(configMap, namespace, bundle, now),
    maximumOctets: maximumObjectOctets,
  });
  // A namespace is rarely deleted between the list and the write. The next list lacks it.
  if (answer === undefined) throw new FetchError("has no such namespace any more");
  const [name, held] = parseRootConfigMap(answer, configMap) ?? [];
  if (name === namespace && held && holds(held, bundle)) return held;
  throw new FetchError("has stored something else than what was applied");
}

/** The progress of the delivery to a cluster, for operators. */
export interface RootsReport {
  readonly ready: boolean;
  /** `spiffe_sequence` of the bundle that is being delivered. */
  readonly sequence: number | undefined;
  /** Since when every place has had it, without a gap. */
  readonly since: Date | undefined;
  readonly delivered: number;
  /** The first of the places that do not have it yet. */
  readonly pending: readonly string[];
  /** Why it is not ready. */
  readonly reasons: readonly string[];
}

const namedPending = 10;

/** Remembers since when every place has had the bundle. */
export class DeliveryProgress {
  readonly #current: () => NumberedBundle | undefined;
  readonly #deliveries: readonly RootDelivery[];
  #since: { readonly at: Date; readonly pem: string } | undefined;

  /** @param current The bundle to deliver; `undefined` until the CA has answered. */
  constructor(current: () => NumberedBundle | undefined, deliveries: readonly RootDelivery[]) {
    this.#current = current;
    this.#deliveries = deliveries;
  }

  /** Whether there is a bundle, and every place of the cluster is known. */
  hasAll(): boolean {
    const { bundle, hasAll } = this.#inspect();
    return bundle !== undefined && hasAll;
  }

  /** Records whether every place has the bundle now. */
  note(now: Date): void {
    const { bundle, ready } = this.#inspect();
    if (!ready || !bundle) this.#since = undefined;
    else if (this.#since?.pem !== bundle.pem) this.#since = { at: now, pem: bundle.pem };
  }

  report(): RootsReport {
    const { bundle, states, pending, hasAll, ready } = this.#inspect();
    return {
      ready,
      sequence: bundle?.sequence,
      since: ready && this.#since?.pem === bundle?.pem ? this.#since?.at : undefined,
      delivered: states.reduce((sum, { delivered }) => sum + delivered.length, 0),
      pending: pending.slice(0, namedPending),
      reasons: [
        ...(bundle ? [] : ["the CA has not answered yet"]),
        ...(hasAll ? [] : ["the cluster has not been listed yet"]),
        ...(pending.length === 0 ? [] : [`${pending.length} places do not have the bundle yet`]),
      ],
    };
  }

  #inspect() {
    const bundle = this.#current();
    const states = bundle ? this.#deliveries.map((each) => each.stateOf(bundle)) : [];
    const pending = states.flatMap((state) => state.pending);
    const hasAll = states.every((state) => state.hasAll);
    const ready = bundle !== undefined && hasAll && pending.length === 0;
    return { bundle, states, pending, hasAll, ready };
  }
}
