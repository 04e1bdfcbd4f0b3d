import type { Caller } from "../../authn/caller.ts";
import { type Bytes, toHex } from "../../pki/encoding/bytes.ts";
import { toPem } from "../../pki/encoding/pem.ts";
import type { ServiceAccount } from "../../pki/spiffe-id.ts";
import type { Authorities } from "../authorities.ts";
import type { AuthorityView } from "../authority-view.ts";

/** Signing authorities that callers choose by name (Istio's `CertSigner`), and the callers that may. */
export interface NamedSigner {
  readonly authorities: Authorities;
  /** @param account Of the certificate: the caller's own, or the one that a node proxy acts for. */
  readonly mayUse: (caller: Caller, account: ServiceAccount) => boolean;
}

/**
 * Gives a signer the trust bundle of all signers of the trust domain. A verifier knows the trust domain of
 * a certificate, but not which of its signers signed (SPIFFE Trust Domain and Bundle §4).
 *
 * All of the stores must be readable: a bundle that lacks a signer's roots would cut off its workloads.
 */
export function uniteBundles(own: Authorities, others: readonly Authorities[]): Authorities {
  if (others.length === 0) return own;
  let parts: readonly AuthorityView[] = [];
  let united: AuthorityView | undefined;
  const unite = (views: readonly AuthorityView[]): AuthorityView => {
    const isCurrent = united && views.every((view, i) => view === parts[i]);
    if (!united || !isCurrent) [parts, united] = [views, unitedView(views)];
    return united;
  };
  return {
    at: (now) => {
      const views = [own, ...others].map((each) => each.at(now));
      return views.every(isKnown) ? unite(views) : Promise.all(views).then(unite);
    },
    renew: async (now) => {
      await Promise.all([own, ...others].map((each) => each.renew(now)));
    },
  };
}

const isKnown = (view: AuthorityView | Promise<AuthorityView>): view is AuthorityView =>
  !(view instanceof Promise);

function unitedView(views: readonly AuthorityView[]): AuthorityView {
  const [own] = views;
  if (!own) throw new Error("no authorities to unite");
  const roots = [...distinct(views.flatMap(({ trustBundle }) => trustBundle.roots)).values()];
  const pem = roots.map((root) => toPem("CERTIFICATE", root)).join("");
  return {
    ...own,
    crlIssuers: views
      .flatMap(({ crlIssuers }) => crlIssuers)
      .toSorted((a, b) => (a.authority.id < b.authority.id ? -1 : 1)),
    trustBundle: { roots, pem },
    chainPem: [...own.chainPem.slice(0, -1), pem],
    sequence: Math.max(...views.map(({ sequence }) => sequence)),
  };
}

/** Sorted, so that every signer has the same bundle. */
function distinct(roots: readonly Bytes[]): ReadonlyMap<string, Bytes> {
  const entries = roots.map((root): [string, Bytes] => [toHex(root), root]);
  return new Map(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
