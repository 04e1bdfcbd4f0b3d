import * as z from "zod/mini";
import { isRecent } from "../foundation/caches.ts";
import type { OperationLog } from "../foundation/events.ts";
import { FetchError } from "../foundation/fetch.ts";
import { KubernetesClient } from "../kubernetes/client.ts";
import type { RootDelivery } from "./config-map-delivery.ts";

/** `v1` from Kubernetes 1.37, which has `v1beta1` off. */
const apiVersions = ["certificates.k8s.io/v1", "certificates.k8s.io/v1beta1"];

/** No watch observes the object. A change by another writer is repaired after this long. */
const repairSeconds = 300;

/** The pause after a failure. */
const retrySeconds = 15;

/**
 * Creates the delivery that keeps the trust bundle in the one ClusterTrustBundle `<signer>:root-cert`, which replaces the
 * ConfigMaps of all namespaces. It writes nothing before the first bundle, applies a bundle again at intervals, and logs
 * failures.
 */
export function createClusterTrustBundle(
  client: KubernetesClient,
  signerName: string,
  log: OperationLog,
  signal: AbortSignal,
): RootDelivery {
  const name = `${signerName.replace("/", ":")}:root-cert`;
  let applied = "";
  let tried = { pem: "", at: new Date(0) };
  let pauseSeconds = 0;
  return {
    stateOf: ({ pem }) => {
      const isThere = applied === pem;
      return { delivered: isThere ? [name] : [], pending: isThere ? [] : [name], hasAll: true };
    },
    deliver: async ({ pem }, now) => {
      if (tried.pem === pem && isRecent(tried.at, pauseSeconds, now)) return;
      tried = { pem, at: now };
      pauseSeconds = retrySeconds;
      try {
        await apply(client, { name, signerName, trustBundle: pem }, signal);
        applied = pem;
        pauseSeconds = repairSeconds;
      } catch (error) {
        applied = "";
        if (!signal.aborted) KubernetesClient.logFault(log, "root-not-delivered", error);
      }
    },
  };
}

const storedSchema = z.object({ spec: z.object({ trustBundle: z.string() }) });

/**
 * Applies the bundle in the first version of the API that the server has. It tries all each time, because an update of
 * the server changes its versions. An apply creates a missing object, so status 404 means that the server lacks the
 * version.
 *
 * @throws FetchError also where the API server has stored something else.
 */
async function apply(
  { send }: KubernetesClient,
  { name, signerName, trustBundle }: Record<"name" | "signerName" | "trustBundle", string>,
  signal: AbortSignal,
): Promise<void> {
  for (const apiVersion of apiVersions) {
    const path = `/apis/${apiVersion}/clustertrustbundles/${encodeURIComponent(name)}`;
    const answer = await send({
      method: "PATCH",
      path: `${path}?fieldManager=rampart-distribute&force=true`,
      body: {
        apiVersion,
        kind: "ClusterTrustBundle",
        metadata: { name },
        spec: { signerName, trustBundle },
      },
      maximumOctets: KubernetesClient.maximumObjectOctets,
      signal,
    });
    if (answer === undefined) continue;
    const stored = storedSchema.safeParse(answer);
    if (stored.success && stored.data.spec.trustBundle === trustBundle) return;
    throw new FetchError("has stored something else than what was applied");
  }
  throw new FetchError(`serves no ClusterTrustBundle (${apiVersions.join(", ")})`);
}
