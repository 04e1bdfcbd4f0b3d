import { IssuerKeys } from "../../../src/authn/issuer-keys.ts";
import { createSubjectMapping } from "../../../src/authn/subject-claims.ts";
import type { ClusterIssuer, SubjectIssuer } from "../../../src/authn/token-issuer.ts";
import { nameAllowList } from "../../../src/foundation/globs.ts";
import { KeySet } from "../../../src/pki/jose/key-set.ts";
import { IdentityProof } from "../../../src/pki/x509/leaf/identity-proof.ts";
import { jwksOf, type TokenKey } from "./tokens.ts";

type Rules = Partial<ClusterIssuer> & { readonly namespaces?: readonly string[] };

/** An issuer as the composition root makes it from `ISSUERS`, with pinned keys. */
export function tokenIssuer(
  name: string,
  keys: readonly TokenKey[],
  rules: Rules = {},
): ClusterIssuer {
  const keySet = KeySet.parse(jwksOf(...keys));
  if (!keySet) throw new Error("no key that Rampart can use");
  return {
    ...tokenIssuerWithoutKeys(name, rules),
    keys: IssuerKeys.pinned({ usable: keySet, unusable: [] }),
  };
}

/** An issuer with a table of claims that has no entry: it may still seem to vouch for every account. */
export function claimsIssuerWithoutKeys(name: string): SubjectIssuer {
  const { digest, renewalSeconds, audiences, cluster, clusterAliases, mayVouchFor, keys } =
    tokenIssuerWithoutKeys(name);
  const subjects = createSubjectMapping({ issuer: name, entries: [], recordedClaims: [] });
  const rights = { cluster, clusterAliases, mayVouchFor, subjects };
  return { name, digest, renewalSeconds, audiences, keys, ...rights };
}

/** An issuer whose tokens no test reads. */
export function tokenIssuerWithoutKeys(name: string, rules: Rules = {}): ClusterIssuer {
  const { namespaces = ["*"], ...others } = rules;
  const mayUse = nameAllowList(namespaces);
  return {
    name,
    digest: IdentityProof.issuerDigest(name),
    renewalSeconds: 720 * 3600,
    audiences: ["istio-ca"],
    cluster: "Kubernetes",
    clusterAliases: [],
    mayVouchFor: ({ namespace }) => mayUse(namespace),
    isNodeAccount: () => false,
    requireNode: async () => {},
    keys: () => [],
    ...others,
  };
}
