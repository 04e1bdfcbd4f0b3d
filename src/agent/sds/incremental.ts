import type { DeltaDiscoveryRequest } from "../../gen/envoy/service/discovery/v3/discovery_pb.ts";
import type { RequestOutcome } from "./state-of-the-world.ts";

/**
 * The state of one stream of the incremental protocol. A request both acknowledges a response and
 * changes the subscriptions. A stale nonce needs no rule, because each request names its resources.
 */
export class Incremental {
  #hasNode = false;
  readonly #watched = new Set<string>();
  /** The version of each resource that the client has. */
  readonly #versions = new Map<string, string>();

  get watched(): ReadonlySet<string> {
    return this.#watched;
  }

  /** Whether the client has this version of the resource. */
  hasVersion(name: string, version: string): boolean {
    return this.#versions.get(name) === version;
  }

  /** Records the version of a resource that is about to be sent. */
  recordSent(name: string, version: string): void {
    this.#versions.set(name, version);
  }

  receive(request: DeltaDiscoveryRequest): RequestOutcome {
    if (!this.#hasNode) {
      if (!request.node?.id) return { outcome: "refused", reason: "missing node information" };
      for (const [name, version] of Object.entries(request.initialResourceVersions)) {
        this.#versions.set(name, version);
      }
    }
    this.#hasNode = true;
    for (const name of request.resourceNamesUnsubscribe) {
      this.#watched.delete(name);
      this.#versions.delete(name);
    }
    const names = request.resourceNamesSubscribe;
    for (const name of names) {
      // A client that subscribes again has lost the resource.
      if (this.#watched.has(name)) this.#versions.delete(name);
      this.#watched.add(name);
    }
    if (names.length > 0) return { outcome: "answer", names };
    if (request.errorDetail) return { outcome: "rejected", detail: request.errorDetail.message };
    return { outcome: "silent" };
  }
}
