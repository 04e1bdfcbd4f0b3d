import * as z from "zod/mini";
import type { OperationLog } from "../../foundation/event-log.ts";
import { FetchError } from "../../foundation/json-fetch.ts";
import { type KubernetesClient, maximumObjectOctets } from "../../kubernetes/client.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { logFault } from "../observability/fault-log.ts";
import type { RootDelivery } from "./root-delivery.ts";

/** Istio's names (istio facts §5.5). */
const signerName = "istio.io/istiod-ca";
const name = "istio.io:istiod-ca:root-cert";
const collection = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles";
const path = `${collection}/${encodeURIComponent(name)}?fieldManager=rampart-distribute&force=true`;

/** It is not watched: what somebody else made of it is put right after so long. */
const repairSeconds = 300;

/** After a failure. */
const retrySeconds = 15;

/** Keeps the trust bundle in the one ClusterTrustBundle that stands for ConfigMaps everywhere. */
export function createClusterTrustBundle(
  client: KubernetesClient,
  log: OperationLog,
  signal: AbortSignal,
): RootDelivery {
  let applied = "";
  let tried = "";
  let due = new Date(0);
  return {
    stateOf: ({ pem }) => {
      const isThere = applied === pem;
      return { delivered: isThere ? [name] : [], pending: isThere ? [] : [name], hasAll: true };
    },
    deliver: async ({ pem }, now) => {
      if (tried === pem && now < due) return;
      tried = pem;
      due = addSeconds(now, retrySeconds);
      try {
        await applyTrustBundle(client, pem, signal);
        applied = pem;
        due = addSeconds(now, repairSeconds);
      } catch (error) {
        applied = "";
        if (!signal.aborted) logFault(log, "root-not-delivered", error);
      }
    },
  };
}

const storedForm = z.object({ spec: z.object({ trustBundle: z.string() }) });

/** @throws FetchError also where the API server has stored something else. */
async function applyTrustBundle(
  { send }: KubernetesClient,
  pem: string,
  signal: AbortSignal,
): Promise<void> {
  const body = clusterTrustBundle(pem);
  const maximumOctets = maximumObjectOctets;
  const answer = await send({ method: "PATCH", path, body, maximumOctets, signal });
  if (answer === undefined) throw new FetchError("serves no ClusterTrustBundles (v1beta1)");
  const stored = storedForm.safeParse(answer);
  if (stored.success && stored.data.spec.trustBundle === pem) return;
  throw new FetchError("has stored something else than what was applied");
}

const clusterTrustBundle = (trustBundle: string): object => ({
  apiVersion: "certificates.k8s.io/v1beta1",
  kind: "ClusterTrustBundle",
  metadata: { name },
  spec: { signerName, trustBundle },
});
