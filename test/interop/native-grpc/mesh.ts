import { join } from "node:path";
import { startDevelopmentCluster } from "../../../dev/cluster/cluster.ts";

/** Departures from a valid token. */
interface TokenWish {
  /** `namespace/name`. */
  readonly account: string;
  readonly audience?: string;
  readonly lifetimeSeconds?: number;
  readonly issuer?: "ours" | "a stranger";
}

/** The clusters of the callers: the CA trusts one for some namespaces, and does not know the other. */
export interface Mesh {
  readonly token: (wish: TokenWish) => Promise<string>;
  readonly gatewayAccount: string;
  /** The trusted cluster in `ISSUERS`. */
  readonly issuerTable: (servedName: string) => IssuerTable;
  readonly end: () => Promise<void>;
}

type IssuerTable = {
  issuer: string;
  namespaces: string[];
  trusted_node_accounts: string[];
  node_reach: string;
  gateways: { account: string; dns_names: string[] }[];
};

/** The account of the node proxies of the mesh. */
export const nodeAccount = "istio-system/ztunnel";

export async function startMesh(folder: string): Promise<Mesh> {
  const [ours, theirs] = await Promise.all([
    startDevelopmentCluster({ port: 0, folder: join(folder, "ours") }),
    startDevelopmentCluster({ port: 0, folder: join(folder, "theirs") }),
  ]);
  const gatewayAccount = "istio-system/rampart-gateway";
  return {
    gatewayAccount,
    token: ({ account, audience = "istio-ca", lifetimeSeconds = 3600, issuer = "ours" }) => {
      const [namespace = "", serviceAccount = ""] = account.split("/");
      const claims = { namespace, serviceAccount, audiences: [audience] };
      const cluster = issuer === "ours" ? ours : theirs;
      return cluster.mintToken({ ...claims, expirationSeconds: lifetimeSeconds });
    },
    issuerTable: (servedName) => ({
      issuer: ours.issuer,
      namespaces: ["foo", "mesh", "istio-system"],
      trusted_node_accounts: [nodeAccount],
      node_reach: "anywhere",
      gateways: [{ account: gatewayAccount, dns_names: [servedName] }],
    }),
    end: async () => {
      await Promise.all([ours.close(), theirs.close()]);
    },
  };
}
