import type { X509Certificate } from "node:crypto";
import { type Issuance, isIssuedBy, type X509Svid } from "../identity/x509-svid.ts";
import { Subscribers } from "../secrets/subscribers.ts";
import type { BundleDocument } from "./bundle-document.ts";

/** What became of a bundle that was looked at. */
export type BundleOutcome = "changed" | "unchanged" | "sequence-backwards" | "empty";

/**
 * The roots of our own trust domain, merged from what the CA says in two ways: the roots of each
 * answer, and the published bundle.
 *
 * The bundle, once looked at, is the word: roots of an answer count beside it only until the next
 * look, so that what the CA withdrew is gone, and what it has just added is there. What a newer bundle
 * withdrew, no answer brings back: one of the CA's isolates may still serve an older view.
 */
export class TrustRoots {
  readonly changes: Subscribers = new Subscribers();
  /** Fingerprints of roots by who was answered with them. */
  readonly #answered = new Map<string, readonly string[]>();
  /** Every root that is mentioned anywhere, once: a thousand answers bring the same. */
  readonly #certificates = new Map<string, X509Certificate>();
  readonly #recalled = new Set<string>();
  readonly #withdrawn = new Set<string>();
  #bundle: BundleDocument | undefined;
  #roots: readonly X509Certificate[] = [];
  #pem = "";

  /** In the order of their PEM, which is Istio's; none twice. */
  get current(): readonly X509Certificate[] {
    return this.#roots;
  }

  get sequence(): number | undefined {
    return this.#bundle?.sequence;
  }

  /** PEM as Istio joins it: sorted, without a newline at the end. */
  get pem(): string {
    return this.#pem;
  }

  /** Learns the roots of an answer, in place of those of the last answer for the same identity. */
  learnAnswer({ svid, roots }: Pick<Issuance, "svid" | "roots">): void {
    for (const name of this.#recalled) this.#answered.delete(name);
    this.#recalled.clear();
    this.#answered.set(svid.spiffeId, this.#intern(roots));
    this.#merge();
  }

  /** Takes up roots of an earlier run, under some name, until an answer or a bundle is fresh. */
  recall(name: string, roots: readonly X509Certificate[]): void {
    this.#recalled.add(name);
    this.#answered.set(name, this.#intern(roots));
    this.#merge();
  }

  /** Learns the published bundle, unless it is older than the one known. */
  learnBundle(bundle: BundleDocument): BundleOutcome {
    const known = this.#bundle;
    if (bundle.roots.length === 0) return "empty";
    if (known && bundle.sequence < known.sequence) return "sequence-backwards";
    for (const root of known?.roots ?? []) this.#withdrawn.add(root.fingerprint256);
    for (const root of bundle.roots) this.#withdrawn.delete(root.fingerprint256);
    this.#bundle = bundle;
    this.#intern(bundle.roots);
    this.#answered.clear();
    return this.#merge() ? "changed" : "unchanged";
  }

  /** Learns that the bundle is still the one known. */
  confirmBundle(): void {
    if (!this.#bundle) return;
    this.#answered.clear();
    this.#merge();
  }

  /** Forgets the answers for an identity that is no longer kept. */
  forget(spiffeId: string): void {
    if (this.#answered.delete(spiffeId)) this.#merge();
  }

  /** Whether a verifier with these roots would believe the certificate. */
  verifies(svid: X509Svid, now: Date): boolean {
    return isIssuedBy(svid.chain, this.#roots, now);
  }

  /** Whether an answer's certificate leads to a root that no newer bundle has withdrawn. */
  accepts({ svid, roots }: Pick<Issuance, "svid" | "roots">, now: Date): boolean {
    const standing = roots.filter((root) => !this.#withdrawn.has(root.fingerprint256));
    return isIssuedBy(svid.chain, standing, now);
  }

  #intern(roots: readonly X509Certificate[]): readonly string[] {
    return roots.map((root) => {
      const fingerprint = root.fingerprint256;
      if (!this.#certificates.has(fingerprint)) this.#certificates.set(fingerprint, root);
      return fingerprint;
    });
  }

  /** @returns Whether the roots are others than before. */
  #merge(): boolean {
    const named = new Set(this.#bundle?.roots.map((root) => root.fingerprint256));
    for (const fingerprints of this.#answered.values()) {
      for (const each of fingerprints) if (!this.#withdrawn.has(each)) named.add(each);
    }
    const isSame =
      named.size === this.#roots.length &&
      this.#roots.every((root) => named.has(root.fingerprint256));
    if (isSame) return false;
    for (const each of this.#certificates.keys()) {
      if (!named.has(each)) this.#certificates.delete(each);
    }
    this.#roots = [...this.#certificates.values()].toSorted(byPem);
    this.#pem = this.#roots.map((root) => root.toString().trimEnd()).join("\n");
    this.changes.notify();
    return true;
  }
}

function byPem(a: X509Certificate, b: X509Certificate): number {
  return a.toString() < b.toString() ? -1 : 1;
}
