import type { X509Certificate } from "node:crypto";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { Subscribers } from "../secrets/subscribers.ts";
import type { BundleDocument } from "./bundle-document.ts";

/** What became of the bundle of a foreign trust domain. */
export type FederatedOutcome = "taken" | "sequence-backwards" | "other-trust-domain";

/** The roots of foreign trust domains, each from its own bundle endpoint. */
export class FederatedBundles {
  readonly changes: Subscribers = new Subscribers();
  readonly #bundles = new Map<TrustDomain, BundleDocument>();

  get current(): ReadonlyMap<TrustDomain, readonly X509Certificate[]> {
    const entries = [...this.#bundles].map(([domain, { roots }]) => [domain, roots] as const);
    // A bundle without roots says that nobody of that domain is to be believed (SPIFFE §4.2).
    return new Map(entries.filter(([, roots]) => roots.length > 0));
  }

  /** Learns a bundle, unless it is older than the one known, or somebody else's. */
  learn(trustDomain: TrustDomain, bundle: BundleDocument): FederatedOutcome {
    const known = this.#bundles.get(trustDomain);
    if (known && bundle.sequence < known.sequence) return "sequence-backwards";
    if (bundle.roots.some((root) => isOfAnother(root, trustDomain))) return "other-trust-domain";
    this.#bundles.set(trustDomain, bundle);
    this.changes.notify();
    return "taken";
  }
}

/** A bundle does not say whose it is, but a root may: by its own SPIFFE ID (SPIFFE X509-SVID §3.2). */
function isOfAnother({ subjectAltName = "" }: X509Certificate, trustDomain: TrustDomain): boolean {
  const named = subjectAltName.matchAll(/URI:"?spiffe:\/\/([^/",]*)/gi);
  return [...named].some(([, name = ""]) => name.toLowerCase() !== trustDomain);
}
