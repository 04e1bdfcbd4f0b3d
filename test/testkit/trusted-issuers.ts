import { pinnedKeys } from "../../src/authn/issuer-keys.ts";
import { parseKeySet } from "../../src/authn/key-set.ts";
import { namespaceAllowList, type TrustedIssuer } from "../../src/authn/trusted-issuer.ts";
import { jwksOf, type TokenKey } from "./tokens.ts";

/** An issuer as the composition makes one of `ISSUERS`, its keys pinned. */
export function trustedIssuer(
  issuer: string,
  keys: readonly TokenKey[],
  rules: Partial<TrustedIssuer> & { readonly namespaces?: readonly string[] } = {},
): TrustedIssuer {
  const { namespaces = ["*"], ...others } = rules;
  const mayUse = namespaceAllowList(namespaces);
  const keySet = parseKeySet(jwksOf(...keys));
  if (!keySet) throw new Error("no key that Rampart can use");
  return {
    issuer,
    audiences: ["istio-ca"],
    cluster: "Kubernetes",
    clusterAliases: [],
    mayVouchFor: ({ namespace }) => mayUse(namespace),
    isNodeAccount: () => false,
    gatewayNames: () => undefined,
    keys: pinnedKeys(keySet),
    ...others,
  };
}
