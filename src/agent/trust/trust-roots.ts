import type { X509Certificate } from "node:crypto";
import type { SpiffeId } from "../../pki/spiffe-id.ts";
import { isIssuedBy, MeshRoots } from "../../program/bundle/mesh-roots.ts";
import { SpiffeBundle } from "../../program/bundle/spiffe-bundle.ts";
import { Subscribers } from "../subscribers.ts";

type BundleOutcome =
  | "changed"
  | "unchanged"
  | Extract<ReturnType<typeof SpiffeBundle.ownAfter>, string>;

/** A chain of certificates for an identity, the leaf first. */
interface Chain {
  readonly spiffeId: SpiffeId;
  readonly chain: readonly X509Certificate[];
}

/** A chain with the roots that the CA sent with it. */
interface RootedChain {
  readonly svid: Chain;
  readonly roots: readonly X509Certificate[];
}

/**
 * The roots of the agent's own trust domain, from two sources: the CA's answers, and its published bundle.
 *
 * The published bundle takes precedence. Roots of a later answer are trusted beside it until the next poll, because the
 * CA may just have added one. No answer restores a root that a newer bundle withdrew, because an isolate of the CA may
 * still serve an older state.
 */
export class TrustRoots {
  readonly changes: Subscribers = new Subscribers();
  /** The fingerprints of each answer's roots, by SPIFFE ID. */
  readonly #answers = new Map<string, readonly string[]>();
  /** The known roots by their fingerprints, each only once in memory although a thousand responses have it. */
  readonly #certificates = new Map<string, X509Certificate>();
  readonly #restored = new Set<string>();
  /** The roots that a newer bundle withdrew, by their fingerprints. */
  readonly #withdrawn = new Map<string, X509Certificate>();
  readonly #mesh: MeshRoots;
  #bundle: SpiffeBundle | undefined;
  #heldBack: readonly X509Certificate[] = [];
  #served: readonly X509Certificate[] = [];
  #pem = "";

  /** @param ca The address of the CA. */
  constructor(ca?: string) {
    this.#mesh = new MeshRoots(ca);
  }

  /** Sorted by PEM, as in Istio, without duplicates. */
  get current(): readonly X509Certificate[] {
    return this.#mesh.current;
  }

  /** The roots that verifiers get: all except new ones that wait for their CRLs. */
  get served(): readonly X509Certificate[] {
    return this.#served;
  }

  get sequence(): number | undefined {
    return this.#bundle?.sequence;
  }

  /** PEM of {@link served} in Istio's form: sorted, without a final newline. */
  get pem(): string {
    return this.#pem;
  }

  /** Resolves once a root is known, or when the signal aborts. */
  async known(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const end = this.changes.add(resolve);
    signal.addEventListener("abort", () => resolve());
    if (this.current.length === 0 && !signal.aborted) await promise;
    end();
  }

  /** Adds the roots of a response, in place of those of the last response for the same identity. */
  updateFromAnswer({ svid, roots }: RootedChain): void {
    for (const name of this.#restored) this.#answers.delete(name);
    this.#restored.clear();
    this.#answers.set(svid.spiffeId, this.#intern(roots));
    this.#merge();
  }

  /** Adds roots of an earlier run, which are trusted until the first answer or bundle of this run. */
  restore(name: string, roots: readonly X509Certificate[]): void {
    this.#restored.add(name);
    this.#answers.set(name, this.#intern(roots));
    this.#merge();
  }

  /** What {@link recall} reads in the next run. */
  get record(): string {
    return this.#mesh.record;
  }

  recall(record: string): void {
    const roots = this.#mesh.recall(record);
    if (roots.length > 0) this.restore("", roots);
  }

  /** The roots for a connection, by {@link MeshRoots.forConnection}. */
  forConnection(file: readonly X509Certificate[]): readonly X509Certificate[] {
    return this.#mesh.forConnection(file);
  }

  /** Accepts the published bundle, unless {@link SpiffeBundle.ownAfter} refuses it. */
  updateFromBundle(published: SpiffeBundle): BundleOutcome {
    const known = this.#bundle;
    const bundle = SpiffeBundle.ownAfter(known, published);
    if (typeof bundle === "string") return bundle;
    for (const root of known?.roots ?? []) this.#withdrawn.set(root.fingerprint256, root);
    for (const root of bundle.roots) this.#withdrawn.delete(root.fingerprint256);
    this.#bundle = bundle;
    this.#intern(bundle.roots);
    this.#answers.clear();
    return this.#merge() ? "changed" : "unchanged";
  }

  /** Withholds these roots from verifiers, and releases those of the last call. @param roots Of {@link current}. */
  holdBack(roots: readonly X509Certificate[]): void {
    this.#heldBack = roots;
    if (this.#serve()) this.changes.notify();
  }

  /** Records that the bundle is still current. Roots of answers that are not in it lose their trust. */
  confirmBundle(): void {
    if (!this.#bundle) return;
    this.#answers.clear();
    this.#merge();
  }

  remove(spiffeId: string): void {
    if (this.#answers.delete(spiffeId)) this.#merge();
  }

  /** Whether the chain leads to a current root. */
  verifies({ chain }: Pick<Chain, "chain">, now: Date): boolean {
    return isIssuedBy(chain, this.current, now);
  }

  /**
   * Whether a certificate leads to a root that the bundle withdrew, and to no current one; `false` for one of another
   * CA.
   *
   * @param others The intermediates of the certificate, in order. Roots among them are ignored.
   */
  hasWithdrawn(leaf: X509Certificate, others: readonly X509Certificate[], now: Date): boolean {
    if (this.#withdrawn.size === 0) return false;
    const chain = [leaf, ...others.filter(({ subject, issuer }) => subject !== issuer)];
    const former = [...this.#withdrawn.values()];
    return isIssuedBy(chain, former, now) && !isIssuedBy(chain, this.current, now);
  }

  /** Whether an answer's certificate leads to a root that no newer bundle has withdrawn. */
  accepts({ svid, roots }: RootedChain, now: Date): boolean {
    const trusted = roots.filter((root) => !this.#withdrawn.has(root.fingerprint256));
    return isIssuedBy(svid.chain, trusted, now);
  }

  #intern(roots: readonly X509Certificate[]): readonly string[] {
    return roots.map((root) => {
      const fingerprint = root.fingerprint256;
      if (!this.#certificates.has(fingerprint)) this.#certificates.set(fingerprint, root);
      return fingerprint;
    });
  }

  /** @returns Whether the roots have changed. */
  #merge(): boolean {
    const named = new Set(this.#bundle?.roots.map((root) => root.fingerprint256));
    for (const fingerprints of this.#answers.values()) {
      for (const each of fingerprints) if (!this.#withdrawn.has(each)) named.add(each);
    }
    const isSame =
      named.size === this.current.length &&
      this.current.every((root) => named.has(root.fingerprint256));
    if (isSame) return false;
    for (const each of this.#certificates.keys()) {
      if (!named.has(each)) this.#certificates.delete(each);
    }
    const isRecalled = this.#bundle === undefined && this.#restored.size > 0;
    const roots = [...this.#certificates.values()].toSorted(byPem);
    this.#mesh.update(roots, isRecalled ? "recalled" : "named");
    this.#serve();
    this.changes.notify();
    return true;
  }

  /** @returns Whether verifiers get other roots. */
  #serve(): boolean {
    this.#served = this.current.filter((root) => !this.#heldBack.includes(root));
    const before = this.#pem;
    this.#pem = pemOf(this.#served);
    return this.#pem !== before;
  }
}

function pemOf(roots: readonly X509Certificate[]): string {
  return roots.map((root) => root.toString().trimEnd()).join("\n");
}

function byPem(a: X509Certificate, b: X509Certificate): number {
  return a.toString() < b.toString() ? -1 : 1;
}
