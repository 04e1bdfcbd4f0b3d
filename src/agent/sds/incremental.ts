import type { DeltaDiscoveryRequest } from "../../gen/envoy/service/discovery/v3/discovery_pb.ts";
import type { RequestOutcome } from "./state-of-the-world.ts";

/**
 * One stream of the incremental protocol. A request is at once an acknowledgement and a change of
 * wishes; an acknowledgement of an old response is as good as any, because each names its resources.
 */
export class Incremental {
  #isIntroduced = false;
  readonly #watched = new Set<string>();
  /** The version of each resource that the client is known to hold. */
  readonly #held = new Map<string, string>();

  get watched(): ReadonlySet<string> {
    return this.#watched;
  }

  /** Whether the client has this version already. */
  holds(name: string, version: string): boolean {
    return this.#held.get(name) === version;
  }

  /** Remembers a resource that is about to be sent. */
  sent(name: string, version: string): void {
    this.#held.set(name, version);
  }

  receive(request: DeltaDiscoveryRequest): RequestOutcome {
    if (!this.#isIntroduced) {
      if (!request.node?.id) return { outcome: "refused", why: "missing node information" };
      for (const [name, version] of Object.entries(request.initialResourceVersions)) {
        this.#held.set(name, version);
      }
    }
    this.#isIntroduced = true;
    for (const name of request.resourceNamesUnsubscribe) {
      this.#watched.delete(name);
      this.#held.delete(name);
    }
    const names = request.resourceNamesSubscribe;
    for (const name of names) {
      // Who subscribes again has lost it, and wants it again.
      if (this.#watched.has(name)) this.#held.delete(name);
      this.#watched.add(name);
    }
    if (names.length > 0) return { outcome: "answer", names };
    if (request.errorDetail) return { outcome: "rejected", detail: request.errorDetail.message };
    return { outcome: "silent" };
  }
}
