import type { RootDelivery } from "../../delivery/config-map-delivery.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";

/** The progress of the delivery to a cluster, for operators. */
export interface RootsReport {
  readonly ready: boolean;
  /** `spiffe_sequence` of the bundle that is being delivered. */
  readonly sequence: number | undefined;
  /** Since when every place has had this bundle without interruption. */
  readonly since: Date | undefined;
  readonly delivered: number;
  /** The first of the places that do not have it yet. */
  readonly pending: readonly string[];
  /** Why the delivery is not complete; empty if it is. */
  readonly reasons: readonly string[];
}

const namedPending = 10;

/** Tracks the delivery of a bundle to places of a cluster, and since when every place has had it. */
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

  /** Reads the bundle that is current now. @returns A function that delivers it. */
  begin(): (now: Date) => Promise<void> {
    const bundle = this.#current();
    return async (now) => {
      if (bundle) await Promise.all(this.#deliveries.map((each) => each.deliver(bundle, now)));
      this.note(now);
    };
  }

  /** Records whether every place has the bundle now. */
  note(now: Date): void {
    const { bundle, ready } = this.#inspect();
    if (!ready || !bundle) this.#since = undefined;
    else if (this.#since?.pem !== bundle.pem) this.#since = { at: now, pem: bundle.pem };
  }

  report(): RootsReport {
    const { bundle, states, pending, faults, hasAll, ready } = this.#inspect();
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
        ...faults,
      ],
    };
  }

  #inspect() {
    const bundle = this.#current();
    const states = bundle ? this.#deliveries.map((each) => each.stateOf(bundle)) : [];
    const pending = states.flatMap((state) => state.pending);
    const hasAll = states.every((state) => state.hasAll);
    const faults = [...new Set(states.flatMap(({ fault }) => fault ?? []))];
    const ready = bundle !== undefined && hasAll && pending.length === 0 && faults.length === 0;
    return { bundle, states, pending, faults, hasAll, ready };
  }
}
