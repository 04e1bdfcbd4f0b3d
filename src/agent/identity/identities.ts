import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { Subscribers } from "../secrets/subscribers.ts";
import { RefreshingIdentity, type RefreshingPorts } from "./refreshing-identity.ts";

/** The identities that are kept at the moment, each by itself and all at once. */
export class Identities {
  /** Tells of an identity that has another certificate, or is gone. */
  readonly changes: Subscribers<RefreshingIdentity> = new Subscribers();
  readonly #ports: RefreshingPorts;
  readonly #kept = new Map<string, RefreshingIdentity>();
  readonly #running = new Set<Promise<void>>();

  constructor(ports: RefreshingPorts) {
    this.#ports = ports;
  }

  find(spiffeId: string): RefreshingIdentity | undefined {
    return this.#kept.get(spiffeId);
  }

  all(): readonly RefreshingIdentity[] {
    return [...this.#kept.values()];
  }

  /** Keeps the identity until it is dropped. Twice is once. */
  keep(spiffeId: SpiffeId): RefreshingIdentity {
    const known = this.#kept.get(spiffeId);
    if (known) return known;
    const identity = new RefreshingIdentity(spiffeId, this.#ports);
    this.#kept.set(spiffeId, identity);
    identity.changes.add(() => this.changes.notify(identity));
    const running = identity.run().finally(() => this.#running.delete(running));
    this.#running.add(running);
    return identity;
  }

  drop(spiffeId: SpiffeId): void {
    const identity = this.#kept.get(spiffeId);
    if (!identity) return;
    this.#kept.delete(spiffeId);
    identity.end();
    this.#ports.trust.forget(spiffeId);
    identity.changes.notify();
  }

  /** Ends all of them; resolves when nothing is under way. */
  async end(): Promise<void> {
    for (const identity of this.#kept.values()) identity.end();
    await Promise.all(this.#running);
  }
}
