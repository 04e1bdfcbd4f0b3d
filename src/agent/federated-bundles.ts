import type { X509Certificate } from "node:crypto";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import type { BundleDocument } from "./bundle-document.ts";
import { Subscribers } from "./subscribers.ts";

/** The roots of foreign trust domains, each from its own bundle endpoint. */
export class FederatedBundles {
  readonly changes: Subscribers = new Subscribers();
  readonly #bundles = new Map<TrustDomain, BundleDocument>();

  get current(): ReadonlyMap<TrustDomain, readonly X509Certificate[]> {
    const entries = [...this.#bundles].map(([domain, { roots }]) => [domain, roots] as const);
    // A bundle without roots says that nobody of that domain is to be believed (SPIFFE §4.2).
    return new Map(entries.filter(([, roots]) => roots.length > 0));
  }

  /** Learns a bundle; one that is older than the one known is refused. @returns Whether it is taken. */
  learn(trustDomain: TrustDomain, bundle: BundleDocument): boolean {
    const known = this.#bundles.get(trustDomain);
    if (known && bundle.sequence < known.sequence) return false;
    this.#bundles.set(trustDomain, bundle);
    this.changes.notify();
    return true;
  }
}
