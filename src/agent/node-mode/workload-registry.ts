import { ServiceAccount, SpiffeId, type TrustDomain } from "../../pki/spiffe-id.ts";

interface WorkloadRegistryPorts {
  readonly addIdentity: (spiffeId: SpiffeId) => void;
  readonly removeIdentity: (spiffeId: SpiffeId) => void;
  /** How long an identity is kept after its last workload, for a pod that restarts. */
  readonly lingerMilliseconds: number;
}

/** No node runs more workloads. The limit protects the agent from a faulty feed. */
const maximumWorkloads = 10_000;

/**
 * Counts the workloads of each identity. Each that is added calls `addIdentity`, which must bear repetition;
 * `removeIdentity` is called `lingerMilliseconds` after the last one was removed, unless another was added meanwhile.
 * Adding a known uid with another identity moves that workload. `add` and `replaceAll` return `false` and change nothing
 * if there would be more than 10,000 workloads.
 */
export class WorkloadRegistry implements WorkloadListener {
  readonly #ports: WorkloadRegistryPorts;
  readonly #workloads = new Map<string, SpiffeId>();
  readonly #counts = new Map<SpiffeId, number>();
  readonly #removals = new Map<SpiffeId, NodeJS.Timeout>();

  constructor(ports: WorkloadRegistryPorts) {
    this.#ports = ports;
  }

  count(spiffeId: SpiffeId): number {
    return this.#counts.get(spiffeId) ?? 0;
  }

  add({ uid, spiffeId }: Workload): boolean {
    const before = this.#workloads.get(uid);
    if (before === spiffeId) return true;
    if (before === undefined && this.#workloads.size >= maximumWorkloads) return false;
    this.#workloads.set(uid, spiffeId);
    this.#increment(spiffeId);
    if (before !== undefined) this.#decrement(before);
    return true;
  }

  remove(uid: string): void {
    const spiffeId = this.#workloads.get(uid);
    if (spiffeId === undefined) return;
    this.#workloads.delete(uid);
    this.#decrement(spiffeId);
  }

  replaceAll(workloads: readonly Workload[]): boolean {
    const next = new Map(workloads.map(({ uid, spiffeId }) => [uid, spiffeId]));
    if (next.size > maximumWorkloads) return false;
    // Removes first, so that the limit is kept. Identities outlive their workloads for a while, so none is removed in
    // between.
    for (const uid of [...this.#workloads.keys()]) if (!next.has(uid)) this.remove(uid);
    for (const [uid, spiffeId] of next) this.add({ uid, spiffeId });
    return true;
  }

  list(): readonly Workload[] {
    return [...this.#workloads].map(([uid, spiffeId]) => ({ uid, spiffeId }));
  }

  close(): void {
    for (const timer of this.#removals.values()) clearTimeout(timer);
    this.#removals.clear();
  }

  #increment(spiffeId: SpiffeId): void {
    this.#counts.set(spiffeId, this.count(spiffeId) + 1);
    clearTimeout(this.#removals.get(spiffeId));
    this.#removals.delete(spiffeId);
    this.#ports.addIdentity(spiffeId);
  }

  #decrement(spiffeId: SpiffeId): void {
    const remaining = this.count(spiffeId) - 1;
    if (remaining > 0) {
      this.#counts.set(spiffeId, remaining);
      return;
    }
    this.#counts.delete(spiffeId);
    const removeIdentity = (): void => {
      this.#removals.delete(spiffeId);
      this.#ports.removeIdentity(spiffeId);
    };
    this.#removals.set(spiffeId, setTimeout(removeIdentity, this.#ports.lingerMilliseconds));
  }
}

/** A pod on this node, with the identity of its service account. */
export interface Workload {
  /** A pod's uid, or another name that no other workload has. */
  readonly uid: string;
  readonly spiffeId: SpiffeId;
}

/** Receives the changes of a feed. The same change may come more than once. */
export interface WorkloadListener {
  /** @returns `false`, and nothing changes, if there are too many workloads already. */
  add(workload: Workload): boolean;
  remove(uid: string): void;
  /** Replaces every workload by these. @returns `false`, and nothing changes, if they are too many. */
  replaceAll(workloads: readonly Workload[]): boolean;
  list(): readonly Workload[];
}

/** A source that keeps a {@link WorkloadRegistry} up to date. */
export interface WorkloadFeed {
  /** Why the workloads of the node are not all known yet; `undefined` once they are. */
  readonly fault: string | undefined;
  close(): Promise<void>;
}

const uidPattern = /^[A-Za-z0-9._-]{1,253}$/;

/** The workload with these names, or `undefined` for an invalid name. */
export function parseWorkload(
  trustDomain: TrustDomain,
  uid: string,
  namespace: string,
  serviceAccount: string,
): Workload | undefined {
  const account = ServiceAccount.parse(namespace, serviceAccount);
  if (!account || !uidPattern.test(uid)) return undefined;
  return { uid, spiffeId: SpiffeId.ofWorkload(trustDomain, account) };
}
