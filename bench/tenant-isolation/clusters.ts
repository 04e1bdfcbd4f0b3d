import { randomUUID } from "node:crypto";
import { exportJWK, generateKeyPair, SignJWT } from "jose";

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
  const { publicKey, privateKey } = await generateKeyPair("RS256", { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), kid: "k1", alg: "RS256", use: "sig" };
  const table = {
    issuer: issuerOf(name),
    cluster: `cluster-${name}`,
    cluster_aliases: [`alias-${name}`],
    namespaces: [`${name}-*`, "shared"],
    trusted_node_accounts: [`${name}-mesh/ztunnel`, `shared/${name}-ztunnel`],
    node_reach: "anywhere",
    gateways: [{ account: `shared/${name}-gateway`, dns_names: [`${name}.test`] }],
    jwks: { keys: [jwk] },
    ...access,
  };
  const mint: Mint = (issuer, account) =>
    claimsOf(issuer, account).setProtectedHeader({ alg: "RS256", kid: "k1" }).sign(privateKey);
  return { table, mint };
}

function claimsOf(issuer: string, account: string): SignJWT {
  const [namespace, name] = account.split(":");
  const claims = {
    "kubernetes.io": {
      namespace,
      node: { name: "node-1", uid: randomUUID() },
      pod: { name: `${name}-0`, uid: randomUUID() },
      serviceaccount: { name, uid: randomUUID() },
    },
  };
  return new SignJWT(claims)
    .setIssuer(issuer)
    .setAudience(["istio-ca"])
    .setSubject(`system:serviceaccount:${account}`)
    .setJti(randomUUID())
    .setIssuedAt()
    .setNotBefore("0s")
    .setExpirationTime("12h");
}
