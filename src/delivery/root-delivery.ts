import { FetchError } from "../foundation/fetch.ts";
import { KubernetesClient, type SendRequest } from "../kubernetes/client.ts";
import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";
import {
  HeldRoots,
  parseRootConfigMap,
  rootConfigMap,
  rootConfigMapPath,
} from "./root-config-map.ts";

/** How far the delivery of a bundle to a cluster has come. */
export interface DeliveryState {
  /** The names of the objects, mostly namespaces, that have the bundle, and of those that do not yet. */
  readonly delivered: readonly string[];
  readonly pending: readonly string[];
  /** Whether every list of the cluster was read completely. */
  readonly hasAll: boolean;
  /** Why changes of the cluster are not seen, if a watch keeps failing. */
  readonly fault?: string | undefined;
}

/** Keeps the trust bundle in one cluster: in ConfigMaps, or in a ClusterTrustBundle. */
export interface RootDelivery {
  readonly stateOf: (bundle: NumberedBundle) => DeliveryState;
  /** Applies the bundle wherever it is pending and due. A failure is logged. */
  readonly deliver: (bundle: NumberedBundle, now: Date) => Promise<void>;
}

/** A ConfigMap of roots, and the program that writes it. */
interface RootsPlace {
  readonly namespace: string;
  readonly configMap: string;
  /** A cluster shows it beside the fields, so that an operator sees which program has written them. */
  readonly fieldOwner: "rampart-ca" | "rampart-distribute";
}

/**
 * Applies a bundle to the ConfigMap of a namespace, whatever its fields' owner was before.
 *
 * @returns The roots that the API server has stored.
 * @throws FetchError also if the namespace is gone, or if something else was stored, as an admission webhook may do.
 */
export async function applyRoots(
  send: SendRequest,
  { namespace, configMap, fieldOwner }: RootsPlace,
  bundle: NumberedBundle,
  now: Date,
): Promise<HeldRoots> {
  const answer = await send({
    method: "PATCH",
    path: `${rootConfigMapPath(configMap, namespace)}?fieldManager=${fieldOwner}&force=true`,
    body: rootConfigMap(configMap, namespace, bundle, now),
    maximumOctets: KubernetesClient.maximumObjectOctets,
  });
  // A namespace is rarely deleted between the list and the write. The next list lacks it.
  if (answer === undefined) throw new FetchError("has no such namespace any more");
  const [name, held] = parseRootConfigMap(answer, configMap) ?? [];
  if (name === namespace && held && HeldRoots.hold(held, bundle)) return held;
  throw new FetchError("has stored something else than what was applied");
}
