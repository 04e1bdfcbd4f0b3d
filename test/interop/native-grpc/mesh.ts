import { join } from "node:path";
import { startDevelopmentCluster } from "../../../dev/cluster/cluster.ts";

/** The name of the CA in a mesh. */
export const istiodName = "istiod.istio-system.svc";

/** Departures from a valid token. */
export interface TokenWish {
  /** `namespace/name`. */
  readonly account: string;
  readonly issuer?: "ours" | "a stranger";
}

/** The clusters of the callers: the CA trusts one for some namespaces, and does not know the other. */
export type Mesh = Awaited<ReturnType<typeof startMesh>>;

/** The account of the node proxies of the mesh. */
export const nodeAccount = "istio-system/ztunnel";

export async function startMesh(folder: string) {
  const [ours, theirs] = await Promise.all([
    startDevelopmentCluster({ port: 0, folder: join(folder, "ours") }),
    startDevelopmentCluster({ port: 0, folder: join(folder, "theirs") }),
  ]);
  const gatewayAccount = "istio-system/rampart-gateway";
  return {
    gatewayAccount,
    token: ({ account, issuer = "ours" }: TokenWish): Promise<string> => {
      const [namespace = "", serviceAccount = ""] = account.split("/");
      const claims = { namespace, serviceAccount, audiences: ["istio-ca"] };
      const cluster = issuer === "ours" ? ours : theirs;
      return cluster.mintToken({ ...claims, expirationSeconds: 3600 });
    },
    /** The trusted cluster in `ISSUERS`. */
    issuerTable: {
      issuer: ours.issuer,
      namespaces: ["foo", "mesh", "istio-system"],
      trusted_node_accounts: [nodeAccount],
      node_reach: "anywhere",
      gateways: [{ account: gatewayAccount, dns_names: [istiodName] }],
    },
    end: async () => {
      await Promise.all([ours.close(), theirs.close()]);
    },
  };
}
