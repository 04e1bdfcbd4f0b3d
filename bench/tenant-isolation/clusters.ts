import { createTokenKey, jwksOf } from "../../test/testkit/callers/tokens.ts";
import { mintLasting } from "../workload.ts";

/** Signs a token of an account (`namespace:name`) under an issuer's name. */
export type Mint = (issuer: string, account: string) => Promise<string>;

/** One of several clusters: its table of `ISSUERS`, and a way to mint its tokens. */
interface TenantCluster {
  readonly table: Readonly<Record<string, unknown>>;
  readonly mint: Mint;
}

export const issuerOf = (name: string): string => `https://${name}.example`;

/** Makes a cluster with namespaces of its own, and one that all clusters share. */
export async function createTenantCluster(
  name: string,
  access: Readonly<Record<string, unknown>> = {},
): Promise<TenantCluster> {
  const key = await createTokenKey("RS256", "k1");
  const table = {
    issuer: issuerOf(name),
    cluster: `cluster-${name}`,
    cluster_aliases: [`alias-${name}`],
    namespaces: [`${name}-*`, "shared"],
    trusted_node_accounts: [`${name}-mesh/ztunnel`, `shared/${name}-ztunnel`],
    node_reach: "anywhere",
    gateways: [{ account: `shared/${name}-gateway`, dns_names: [`${name}.test`] }],
    jwks: jwksOf(key),
    ...access,
  };
  return { table, mint: (issuer, account) => mintLasting(key, issuer, account) };
}
