import { FetchError } from "../foundation/fetch.ts";
import { maximumObjectOctets, type SendRequest } from "../kubernetes/client.ts";
import {
  type HeldRoots,
  holds,
  parseRootConfigMap,
  rootConfigMap,
  rootConfigMapPath,
} from "../kubernetes/root-config-map.ts";
import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";

/** A ConfigMap of roots, and the program that writes it. */
export interface RootsPlace {
  readonly namespace: string;
  /** The name of the ConfigMap. */
  readonly configMap: string;
  /** A cluster shows it beside the fields, so that an operator sees which program has written them. */
  readonly fieldOwner: "rampart-ca" | "rampart-distribute";
}

/**
 * Applies a bundle to the ConfigMap of a namespace, whatever its fields' owner was before.
 *
 * @returns The roots that the API server has stored.
 * @throws FetchError also where it has stored something else, as an admission webhook may make it.
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
    maximumOctets: maximumObjectOctets,
  });
  // A namespace is rarely deleted between the list and the write. The next list lacks it.
  if (answer === undefined) throw new FetchError("has no such namespace any more");
  const [name, held] = parseRootConfigMap(answer, configMap) ?? [];
  if (name === namespace && held && holds(held, bundle)) return held;
  throw new FetchError("has stored something else than what was applied");
}
