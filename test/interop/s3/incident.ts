import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { type CallingPod, playIncident } from "../replicas/incident.ts";
import { bucketService } from "./replicas.ts";
import type { Scene } from "./scenes.ts";

const issuer = "https://issuer.example.com";
const node = "node-1";

/** A CA with its records and its log in one bucket, and tokens of a cluster whose keys it has. */
export async function playIncidentInBucket({ gateway, folder }: Scene): Promise<string> {
  const key = await createTokenKey("ES256", "k1");
  const podOf = async (account: string, on: string): Promise<CallingPod> => {
    const uid = crypto.randomUUID();
    const claims = {
      namespace: "shop",
      node: { name: on, uid: crypto.randomUUID() },
      pod: { name: `${account}-0`, uid },
      serviceaccount: { name: account, uid: crypto.randomUUID() },
    };
    const changes = { "kubernetes.io": claims };
    const token = await mintAccountToken(key, issuer, `shop:${account}`, new Date(), changes);
    return { account, uid, token };
  };
  const mesh = {
    service: bucketService(gateway, "incident/"),
    log: {},
    ISSUERS: [{ issuer, jwks: jwksOf(key) }],
    node,
    onNode: [await podOf("web", node), await podOf("cart", node)],
    taken: await podOf("far", "node-2"),
    healthy: await podOf("pay", "node-2"),
  };
  return playIncident(mesh, folder);
}
