import {
  parseServiceAccount,
  type SpiffeId,
  type TrustDomain,
  workloadSpiffeId,
} from "../../pki/spiffe-id.ts";

/** A workload of this node, and who it is. */
export interface Workload {
  /** Tells it from others of the same identity: a pod's uid. */
  readonly uid: string;
  readonly spiffeId: SpiffeId;
}

/** Hears of workloads that come and go, in any order and as often as the feed likes. */
export interface WorkloadAudience {
  /** @returns Whether there was room for it. */
  add(workload: Workload): boolean;
  remove(uid: string): void;
  /** These and no others are here. */
  replaceAll(workloads: readonly Workload[]): void;
}

/** A running source of workloads. */
export interface WorkloadFeed {
  close(): Promise<void>;
}

const uidForm = /^[A-Za-z0-9._-]{1,253}$/;

/** The workload of these names, or `undefined` for names that nobody has. */
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
