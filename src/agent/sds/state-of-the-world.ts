import type { DiscoveryRequest } from "../../gen/envoy/service/discovery/v3/discovery_pb.ts";

/** The consequence of a request. */
export type RequestOutcome =
  | { readonly outcome: "refused"; readonly reason: string }
  | { readonly outcome: "rejected"; readonly detail: string }
  | { readonly outcome: "silent" }
  | { readonly outcome: "answer"; readonly names: readonly string[] };

const silent: RequestOutcome = { outcome: "silent" };

/**
 * The state of one stream of the state-of-the-world protocol. Its rules are those of istiod and
 * pilot-agent (istio pkg/xds/server.go shouldRespond).
 */
export class StateOfTheWorld {
  #hasNode = false;
  #watched: ReadonlySet<string> = new Set();
  #lastNonce = "";

  get watched(): ReadonlySet<string> {
    return this.#watched;
  }

  /** Records the nonce of a response that is about to be sent. */
  recordSent(nonce: string): void {
    this.#lastNonce = nonce;
  }

  receive(request: DiscoveryRequest): RequestOutcome {
    if (!this.#hasNode && !request.node?.id) {
      return { outcome: "refused", reason: "missing node information" };
    }
    this.#hasNode = true;
    // The client keeps its secrets, and gets the next version as a push.
    if (request.errorDetail) return { outcome: "rejected", detail: request.errorDetail.message };
    const requested = new Set(request.resourceNames);
    if (requested.size === 0) {
      this.#watched = requested;
      return silent;
    }
    const isFirst = request.responseNonce === "" || this.#watched.size === 0;
    if (!isFirst && request.responseNonce !== this.#lastNonce) return silent;
    const names = [...requested].filter((name) => isFirst || !this.#watched.has(name));
    this.#watched = requested;
    return names.length === 0 ? silent : { outcome: "answer", names };
  }
}
