import type { DiscoveryRequest } from "../../gen/envoy/service/discovery/v3/discovery_pb.ts";

/** What follows from a request. */
export type RequestOutcome =
  | { readonly outcome: "refused"; readonly why: string }
  | { readonly outcome: "rejected"; readonly detail: string }
  | { readonly outcome: "silent" }
  | { readonly outcome: "answer"; readonly names: readonly string[] };

const silent: RequestOutcome = { outcome: "silent" };

/**
 * One stream of the state-of-the-world protocol, with the rules of istiod's and pilot-agent's server
 * (istio pkg/xds/server.go shouldRespond).
 */
export class StateOfTheWorld {
  #isIntroduced = false;
  #watched: ReadonlySet<string> = new Set();
  #lastNonce = "";

  get watched(): ReadonlySet<string> {
    return this.#watched;
  }

  /** Remembers the nonce of a response that is about to be sent. */
  sent(nonce: string): void {
    this.#lastNonce = nonce;
  }

  receive(request: DiscoveryRequest): RequestOutcome {
    if (!this.#isIntroduced && !request.node?.id) {
      return { outcome: "refused", why: "missing node information" };
    }
    this.#isIntroduced = true;
    // The client keeps what it has; it gets something new when there is something new.
    if (request.errorDetail) return { outcome: "rejected", detail: request.errorDetail.message };
    const asked = new Set(request.resourceNames);
    if (asked.size === 0) {
      this.#watched = asked;
      return silent;
    }
    const isFirst = request.responseNonce === "" || this.#watched.size === 0;
    if (!isFirst && request.responseNonce !== this.#lastNonce) return silent;
    const names = [...asked].filter((name) => isFirst || !this.#watched.has(name));
    this.#watched = asked;
    return names.length === 0 ? silent : { outcome: "answer", names };
  }
}
