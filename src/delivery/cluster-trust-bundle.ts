import * as z from "zod/mini";
import type { OperationLog } from "../foundation/event-log.ts";
import { FetchError } from "../foundation/http/json-fetch.ts";
import { type KubernetesClient, maximumObjectOctets } from "../kubernetes/client.ts";
import { addSeconds } from "../pki/x509/validity.ts";
import { logDeliveryFault, type RootDelivery } from "./root-delivery.ts";

/** Istio's names (docs/design/istio.md#root-distribution). */
const signerName = "istio.io/istiod-ca";
const name = "istio.io:istiod-ca:root-cert";
const apiVersion = "certificates.k8s.io/v1beta1";
const path = `/apis/${apiVersion}/clustertrustbundles/${encodeURIComponent(name)}`;

/** No watch observes the object. A change by another writer is repaired after this long. */
const repairSeconds = 300;

/** The pause after a failure. */
const retrySeconds = 15;

/** Keeps the trust bundle in the one ClusterTrustBundle that replaces the ConfigMaps of all namespaces. */
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
        await apply(client, pem, signal);
        applied = pem;
        due = addSeconds(now, repairSeconds);
      } catch (error) {
        applied = "";
        if (!signal.aborted) logDeliveryFault(log, "root-not-delivered", error);
      }
    },
  };
}

const storedForm = z.object({ spec: z.object({ trustBundle: z.string() }) });

/** @throws FetchError also where the API server has stored something else. */
async function apply(
  { send }: KubernetesClient,
  trustBundle: string,
  signal: AbortSignal,
): Promise<void> {
  const answer = await send({
    method: "PATCH",
    path: `${path}?fieldManager=rampart-distribute&force=true`,
    body: {
      apiVersion,
      kind: "ClusterTrustBundle",
      metadata: { name },
      spec: { signerName, trustBundle },
    },
    maximumOctets: maximumObjectOctets,
    signal,
  });
  if (answer === undefined) throw new FetchError(`serves no ClusterTrustBundle (${apiVersion})`);
  const stored = storedForm.safeParse(answer);
  if (stored.success && stored.data.spec.trustBundle === trustBundle) return;
  throw new FetchError("has stored something else than what was applied");
}
