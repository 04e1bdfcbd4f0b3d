import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { Subscribers } from "../subscribers.ts";
import { RefreshingIdentity, type RefreshingPorts } from "./refreshing-identity.ts";

/** The identities that the agent keeps refreshed. */
export class Identities {
  /** Notified with each identity that gets a new certificate or is removed. */
  readonly changes: Subscribers<RefreshingIdentity> = new Subscribers();
  readonly #ports: RefreshingPorts;
  readonly #identities = new Map<string, RefreshingIdentity>();
  readonly #running = new Set<Promise<void>>();

  constructor(ports: RefreshingPorts) {
    this.#ports = ports;
  }

  find(spiffeId: string): RefreshingIdentity | undefined {
    return this.#identities.get(spiffeId);
  }

  all(): readonly RefreshingIdentity[] {
    return [...this.#identities.values()];
  }

  /**
   * Adds an identity and keeps its certificate renewed until it is removed.
   * @returns The identity, which is the existing one if it was added before.
   */
  add(spiffeId: SpiffeId): RefreshingIdentity {
    const known = this.#identities.get(spiffeId);
    if (known) return known;
    const identity = new RefreshingIdentity(spiffeId, this.#ports);
    this.#identities.set(spiffeId, identity);
    identity.changes.add(() => this.changes.notify(identity));
    const running = identity.run().finally(() => this.#running.delete(running));
    this.#running.add(running);
    return identity;
  }

  remove(spiffeId: SpiffeId): void {
    const identity = this.#identities.get(spiffeId);
    if (!identity) return;
    this.#identities.delete(spiffeId);
    identity.end();
    this.#ports.trust.remove(spiffeId);
    identity.changes.notify();
  }

  /** Ends every identity, and resolves when no request is pending. */
  async end(): Promise<void> {
    for (const identity of this.#identities.values()) identity.end();
    await Promise.all(this.#running);
  }
}
