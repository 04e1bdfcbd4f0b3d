import type { Caller } from "../../authn/caller.ts";
import type { OpenAuthority } from "../../pki/authority/signing-authority.ts";
import { TrustBundle } from "../../pki/authority/trust-bundle.ts";
import { type Bytes, Hex } from "../../pki/encoding/bytes.ts";
import { Pem } from "../../pki/encoding/pem.ts";
import { SignatureAlgorithm } from "../../pki/signature-algorithm.ts";
import type { ServiceAccount } from "../../pki/spiffe-id.ts";
import { Certificate } from "../../pki/x509/certificate.ts";
import { SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import type { Authorities } from "../authorities.ts";
import type { AuthorityView } from "../authority-view.ts";

/** Signing authorities that callers choose by name (Istio's `CertSigner`), and the callers that may. */
export interface NamedSigner {
  readonly authorities: Authorities;
  /** @param account The account of the certificate: the caller's own, or the one that a node proxy acts for. */
  readonly mayUse: (caller: Caller, account: ServiceAccount) => boolean;
}

/** The authorities of a signer, or those without a name, as a part of the bundle that all signers share. */
export interface BundlePart {
  readonly authorities: Authorities;
  /** Whether the bundles of the other signers contain its post-quantum roots as well, which an operator decides. */
  readonly sharesPostQuantum: boolean;
}

/**
 * Gives a signer the trust bundle of all signers of the trust domain. A verifier knows the trust domain of
 * a certificate, but not which of its signers signed (SPIFFE Trust Domain and Bundle §4).
 *
 * The post-quantum roots of a signer are in its own bundle alone, because a verifier that cannot read one root
 * may drop them all.
 *
 * All of the stores must be readable: a bundle that lacks a signer's roots would cut off its workloads.
 */
export function uniteBundles(own: Authorities, others: readonly BundlePart[]): Authorities {
  if (others.length === 0) return own;
  const all = [own, ...others.map(({ authorities }) => authorities)];
  const areShared = [true, ...others.map(({ sharesPostQuantum }) => sharesPostQuantum)];
  let parts: readonly AuthorityView[] = [];
  let united: AuthorityView | undefined;
  const unite = (views: readonly AuthorityView[]): AuthorityView => {
    const isCurrent = united && views.every((view, i) => view === parts[i]);
    if (!united || !isCurrent) [parts, united] = [views, unitedView(views, areShared)];
    return united;
  };
  return {
    at: (now) => {
      const views = all.map((each) => each.at(now));
      return views.every(isKnown) ? unite(views) : Promise.all(views).then(unite);
    },
    renew: async (now) => {
      await Promise.all(all.map((each) => each.renew(now)));
    },
  };
}

const isKnown = (view: AuthorityView | Promise<AuthorityView>): view is AuthorityView =>
  !(view instanceof Promise);

/** Unites the views of several authorities. @param areShared Whether the post-quantum roots of each view join the bundle. */
function unitedView(views: readonly AuthorityView[], areShared: readonly boolean[]): AuthorityView {
  const [own] = views;
  if (!own) throw new Error("no authorities to unite");
  const shared = views.flatMap(({ trustBundle }, i) =>
    trustBundle.roots.filter((root) => areShared[i] || !isPostQuantumRoot(root)),
  );
  const roots = [...distinct(shared).values()];
  const isIn = (i: number) => (issuer: OpenAuthority) =>
    areShared[i] === true ||
    !SignatureAlgorithm.isPostQuantum(issuer.authority.publicKey.algorithm);
  const pem = roots.map((root) => Pem.format("CERTIFICATE", root)).join("");
  return {
    ...own,
    crlIssuers: views
      .flatMap(({ crlIssuers }, i) => crlIssuers.filter(isIn(i)))
      .toSorted((a, b) => (a.authority.id < b.authority.id ? -1 : 1)),
    apart: views.flatMap(({ crlIssuers }, i) => crlIssuers.filter((each) => !isIn(i)(each))),
    trustBundle: { roots, pem },
    chainPem: [...own.chainPem.slice(0, -1), pem],
    sequence: TrustBundle.sequence(views.map(({ history }) => history)),
  };
}

const isPostQuantumRoot = (root: Bytes): boolean =>
  SubjectPublicKey.isPostQuantum(Certificate.parse(root).toBeSigned.spki);

/** The roots without duplicates, sorted, so that every signer has the same bundle. */
function distinct(roots: readonly Bytes[]): ReadonlyMap<string, Bytes> {
  const entries = roots.map((root): [string, Bytes] => [Hex.format(root), root]);
  return new Map(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
