import type { X509Certificate } from "node:crypto";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import type { SpiffeBundle } from "../../program/bundle/spiffe-bundle.ts";
import { Subscribers } from "../secrets/subscribers.ts";

/** The outcome for a bundle of a foreign trust domain. */
export type FederatedOutcome = "taken" | "sequence-backwards" | "other-trust-domain";

/** The roots of foreign trust domains, each from its own bundle endpoint. */
export class FederatedBundles {
  readonly changes: Subscribers = new Subscribers();
  readonly #bundles = new Map<TrustDomain, SpiffeBundle>();

  get current(): ReadonlyMap<TrustDomain, readonly X509Certificate[]> {
    const entries = [...this.#bundles].map(([domain, { roots }]) => [domain, roots] as const);
    // A bundle without roots withdraws trust in its domain (SPIFFE Trust Domain and Bundle §4.2).
    return new Map(entries.filter(([, roots]) => roots.length > 0));
  }

  /** Takes a bundle, unless it is older than the known one, or has a root of another trust domain. */
  update(trustDomain: TrustDomain, bundle: SpiffeBundle): FederatedOutcome {
    const known = this.#bundles.get(trustDomain);
    if (known && bundle.sequence < known.sequence) return "sequence-backwards";
    if (bundle.roots.some((root) => namesAnotherTrustDomain(root, trustDomain)))
      return "other-trust-domain";
    this.#bundles.set(trustDomain, bundle);
    this.changes.notify();
    return "taken";
  }
}

/** A bundle does not name its trust domain, but a root may by its SPIFFE ID (SPIFFE X509-SVID §3.2). */
function namesAnotherTrustDomain(
  { subjectAltName = "" }: X509Certificate,
  trustDomain: TrustDomain,
): boolean {
  const named = subjectAltName.matchAll(/URI:"?spiffe:\/\/([^/",]*)/gi);
  return [...named].some(([, name = ""]) => name.toLowerCase() !== trustDomain);
}
