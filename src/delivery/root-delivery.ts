import { logFault, type OperationLog } from "../foundation/events.ts";
import { FetchError } from "../foundation/fetch.ts";
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

/** {@link logFault} of a request to an API server. */
export function logDeliveryFault(
  log: OperationLog,
  event: "watch-failed" | "root-not-delivered",
  error: unknown,
  fields: Readonly<Record<string, string>> = {},
): void {
  const fault = error instanceof FetchError ? new Error(`the API server ${error.message}`) : error;
  logFault(log, event, fault, fields);
}
