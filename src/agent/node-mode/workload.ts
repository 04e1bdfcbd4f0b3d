import {
  parseServiceAccount,
  type SpiffeId,
  type TrustDomain,
  workloadSpiffeId,
} from "../../pki/spiffe-id.ts";

/** A workload of this node. */
export interface Workload {
  /** A pod's uid, or another name that no other workload has. */
  readonly uid: string;
  readonly spiffeId: SpiffeId;
}

/** Receives the changes of a feed. They may come in any order, and more than once. */
export interface WorkloadListener {
  /** @returns `false` if there are too many workloads already. */
  add(workload: Workload): boolean;
  remove(uid: string): void;
  /** Replaces every workload by these. @returns `false`, and nothing changes, if they are too many. */
  replaceAll(workloads: readonly Workload[]): boolean;
  list(): readonly Workload[];
}

/** A running source of workloads. */
export interface WorkloadFeed {
  /** Why the workloads of the node are not all known yet; `undefined` once they are. */
  readonly fault: string | undefined;
  close(): Promise<void>;
}

const uidForm = /^[A-Za-z0-9._-]{1,253}$/;

/** The workload with these names, or `undefined` for an invalid name. */
export function parseWorkload(
  trustDomain: TrustDomain,
  uid: string,
  namespace: string,
  serviceAccount: string,
): Workload | undefined {
  const account = parseServiceAccount(namespace, serviceAccount);
  if (!account || !uidForm.test(uid)) return undefined;
  return { uid, spiffeId: workloadSpiffeId(trustDomain, account) };
}
