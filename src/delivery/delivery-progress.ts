import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";
import type { RootDelivery } from "./root-delivery.ts";

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

/** Remembers since when every place has had the bundle. */
export interface DeliveryProgress {
  /** Records whether every place has the bundle now. */
  readonly note: (now: Date) => void;
  readonly report: () => RootsReport;
  /** Whether there is a bundle, and every place of the cluster is known. */
  readonly hasAll: () => boolean;
}

const namedPending = 10;

/** @param current The bundle to deliver; `undefined` until the CA has answered. */
export function createDeliveryProgress(
  current: () => NumberedBundle | undefined,
  deliveries: readonly RootDelivery[],
): DeliveryProgress {
  let since: { readonly at: Date; readonly pem: string } | undefined;

  function inspect() {
    const bundle = current();
    const states = bundle ? deliveries.map((each) => each.stateOf(bundle)) : [];
    const pending = states.flatMap((state) => state.pending);
    const hasAll = states.every((state) => state.hasAll);
    const ready = bundle !== undefined && hasAll && pending.length === 0;
    return { bundle, states, pending, hasAll, ready };
  }

  return {
    hasAll: () => {
      const { bundle, hasAll } = inspect();
      return bundle !== undefined && hasAll;
    },
    note: (now) => {
      const { bundle, ready } = inspect();
      if (!ready || !bundle) since = undefined;
      else if (since?.pem !== bundle.pem) since = { at: now, pem: bundle.pem };
    },
    report: () => {
      const { bundle, states, pending, hasAll, ready } = inspect();
      return {
        ready,
        sequence: bundle?.sequence,
        since: ready && since?.pem === bundle?.pem ? since?.at : undefined,
        delivered: states.reduce((sum, { delivered }) => sum + delivered.length, 0),
        pending: pending.slice(0, namedPending),
        reasons: [
          ...(bundle ? [] : ["the CA has not answered yet"]),
          ...(hasAll ? [] : ["the cluster has not been listed yet"]),
          ...(pending.length === 0 ? [] : [`${pending.length} places do not have the bundle yet`]),
        ],
      };
    },
  };
}
