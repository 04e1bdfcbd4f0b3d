import type { X509Certificate } from "node:crypto";
import { JwtSvidKeys } from "../../pki/jose/jwt-svid-keys.ts";
import type { KeySet } from "../../pki/jose/key-set.ts";
import { SpiffeId, type TrustDomain } from "../../pki/spiffe-id.ts";
import { SpiffeBundle } from "../../program/bundle/spiffe-bundle.ts";
import { Subscribers } from "../subscribers.ts";

/** More keys of one trust domain than it withdraws during the life of one token. */
const maximumWithdrawn = 100;

/** The keys for JWT-SVIDs of the own trust domain and of federated ones, each from its own bundle. */
export class JwtBundles {
  readonly changes: Subscribers = new Subscribers();
  readonly #keys = new Map<TrustDomain, KeySet>();
  readonly #withdrawn = new Map<TrustDomain, Set<string>>();

  update(trustDomain: TrustDomain, keys: KeySet): void {
    const before = this.#keys.get(trustDomain);
    if (before && namesOf(before) === namesOf(keys)) return;
    this.#keys.set(trustDomain, keys);
    const withdrawn = this.#withdrawn.get(trustDomain) ?? new Set();
    for (const { keyId = "" } of before ?? []) withdrawn.add(keyId);
    for (const { keyId = "" } of keys) withdrawn.delete(keyId);
    for (const oldest of withdrawn) if (withdrawn.size > maximumWithdrawn) withdrawn.delete(oldest);
    this.#withdrawn.set(trustDomain, withdrawn);
    this.changes.notify();
  }

  /** The keys of a trust domain; `undefined` before its first bundle, and if it is not followed. */
  keysOf(trustDomain: TrustDomain): KeySet | undefined {
    return this.#keys.get(trustDomain);
  }

  /** Whether a newer bundle lacks a former key, whose tokens verifiers refuse or soon will. Remembers 100 keys of a domain. */
  isWithdrawn(trustDomain: TrustDomain, keyId: string): boolean {
    return this.#withdrawn.get(trustDomain)?.has(keyId) === true;
  }

  /** A JWK Set for each trust domain, by its SPIFFE ID. As in SPIRE, keys have no `use`: some readers skip `jwt-svid`. */
  get documents(): Record<string, Uint8Array> {
    const entries = [...this.#keys].map(([trustDomain, keys]) => {
      const set = { keys: keys.map(JwtSvidKeys.toJwk) };
      return [SpiffeId.ofTrustDomain(trustDomain), encoder.encode(JSON.stringify(set))] as const;
    });
    return Object.fromEntries(entries);
  }
}

const encoder = new TextEncoder();

const namesOf = (keys: KeySet): string =>
  JSON.stringify(keys.map(({ keyId, material, algorithms }) => [keyId, material, algorithms]));

type FederatedOutcome = "taken" | "sequence-backwards" | "other-trust-domain";

/** The roots of foreign trust domains, each from its own bundle endpoint. */
export class FederatedBundles {
  readonly changes: Subscribers = new Subscribers();
  readonly #bundles = new Map<TrustDomain, SpiffeBundle>();

  get current(): ReadonlyMap<TrustDomain, readonly X509Certificate[]> {
    const entries = [...this.#bundles].map(([domain, { roots }]) => [domain, roots] as const);
    // A bundle without roots withdraws trust in its domain (SPIFFE Trust Domain and Bundle §4.2).
    return new Map(entries.filter(([, roots]) => roots.length > 0));
  }

  /** The roots of the last bundle, empty if it withdraws all; `undefined` before the first one. */
  rootsOf(trustDomain: TrustDomain): readonly X509Certificate[] | undefined {
    return this.#bundles.get(trustDomain)?.roots;
  }

  /** Accepts a bundle unless {@link SpiffeBundle.after} refuses it, or a root is of another trust domain. */
  update(trustDomain: TrustDomain, published: SpiffeBundle): FederatedOutcome {
    const bundle = SpiffeBundle.after(this.#bundles.get(trustDomain), published);
    if (!bundle) return "sequence-backwards";
    if (bundle.roots.some((root) => namesAnotherTrustDomain(root, trustDomain)))
      return "other-trust-domain";
    this.#bundles.set(trustDomain, bundle);
    this.changes.notify();
    return "taken";
  }
}

/** Whether a root has a SPIFFE ID of another trust domain (SPIFFE X509-SVID §3.2). A bundle itself names no trust domain. */
function namesAnotherTrustDomain(
  { subjectAltName = "" }: X509Certificate,
  trustDomain: TrustDomain,
): boolean {
  const named = subjectAltName.matchAll(/URI:"?spiffe:\/\/([^/",]*)/gi);
  return [...named].some(([, name = ""]) => name.toLowerCase() !== trustDomain);
}
