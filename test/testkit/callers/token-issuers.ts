import { pinnedKeys } from "../../../src/authn/issuer-keys.ts";
import type { TokenIssuer } from "../../../src/authn/token-issuer.ts";
import { nameAllowList } from "../../../src/foundation/globs.ts";
import { webCryptoProvider } from "../../../src/pki/crypto-provider.ts";
import { parseKeySet } from "../../../src/pki/jose/key-set.ts";
import { issuerDigest } from "../../../src/pki/x509/leaf/identity-proof.ts";
import { jwksOf, type TokenKey } from "./tokens.ts";

type Rules = Partial<TokenIssuer> & { readonly namespaces?: readonly string[] };

/** An issuer as the composition root makes it from `ISSUERS`, with pinned keys. */
export function tokenIssuer(
  name: string,
  keys: readonly TokenKey[],
  rules: Rules = {},
): TokenIssuer {
  const keySet = parseKeySet(jwksOf(...keys));
  if (!keySet) throw new Error("no key that Rampart can use");
  return {
    ...tokenIssuerWithoutKeys(name, rules),
    keys: pinnedKeys({ usable: keySet, unusable: [] }, webCryptoProvider),
  };
}

/** An issuer whose tokens no test reads. */
export function tokenIssuerWithoutKeys(name: string, rules: Rules = {}): TokenIssuer {
  const { namespaces = ["*"], ...others } = rules;
  const mayUse = nameAllowList(namespaces);
  return {
    name,
    digest: issuerDigest(name),
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
