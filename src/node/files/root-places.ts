import * as z from "zod/mini";
import { signerName } from "../../config/text-forms.ts";
import { ConfigurationError } from "../../foundation/configuration-error.ts";
import { configMapName, usualConfigMap } from "../../kubernetes/root-config-map.ts";
import {
  type ApiServerPlace,
  type ApiServerValues,
  apiServerKeys,
  apiServerPlaceOf,
  type Environment,
} from "./api-server-place.ts";

/** The places of roots in a cluster, and the access to it. */
export interface RootPlaces extends ApiServerPlace {
  /** The name of the ConfigMap in every namespace; `undefined` for no ConfigMaps. */
  readonly configMap: string | undefined;
  /** Whether ConfigMaps with CRLs are delivered as well. */
  readonly deliversCrls: boolean;
  /** The signer names, each of which gets a ClusterTrustBundle. */
  readonly clusterTrustBundles: readonly string[];
}

/** The keys of any program that delivers roots. docs/how-to/distribute.md explains them. */
export const placeKeys: typeof apiServerKeys & {
  readonly CONFIG_MAP: z.ZodMiniDefault<typeof configMapName>;
  readonly CONFIG_MAPS: z.ZodMiniDefault<z.ZodMiniBoolean>;
  readonly CRL_CONFIG_MAPS: z.ZodMiniDefault<z.ZodMiniBoolean>;
  readonly CLUSTER_TRUST_BUNDLE: z.ZodMiniDefault<z.ZodMiniType<boolean | readonly string[]>>;
} = {
  ...apiServerKeys,
  CONFIG_MAP: z._default(configMapName, usualConfigMap),
  CONFIG_MAPS: z._default(z.boolean(), true),
  CRL_CONFIG_MAPS: z._default(z.boolean(), false),
  CLUSTER_TRUST_BUNDLE: z._default(
    z.union([z.boolean(), z.array(signerName).check(z.minLength(1), z.maxLength(16))], {
      error: "must be true, false or a list of signer names such as mesh.example.com/workload",
    }),
    false,
  ),
};

/** The values of these keys. */
export type PlaceValues = ApiServerValues & z.infer<z.ZodMiniObject<typeof placeKeys>>;

/** @throws ConfigurationError */
export function rootPlacesOf(read: PlaceValues, environment: Environment): RootPlaces {
  const place = apiServerPlaceOf(read, environment);
  if (!read.CONFIG_MAPS && !read.CLUSTER_TRUST_BUNDLE) {
    throw new ConfigurationError(["CONFIG_MAPS: must not be false without CLUSTER_TRUST_BUNDLE"]);
  }
  return {
    ...place,
    configMap: read.CONFIG_MAPS ? read.CONFIG_MAP : undefined,
    deliversCrls: read.CRL_CONFIG_MAPS,
    clusterTrustBundles: signersOf(read.CLUSTER_TRUST_BUNDLE),
  };
}

/** Istio's signer by default (docs/explanation/istio.md#root-distribution). */
function signersOf(setting: boolean | readonly string[]): readonly string[] {
  if (typeof setting !== "boolean") return [...new Set(setting)];
  return setting ? ["istio.io/istiod-ca"] : [];
}
