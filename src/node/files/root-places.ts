import * as z from "zod/mini";
import { filePath } from "../../config/text-forms.ts";
import { ConfigurationError } from "../../foundation/configuration-error.ts";
import { baseUrl } from "../../foundation/text/base-url.ts";
import { configMapName, usualConfigMap } from "../../kubernetes/root-config-map.ts";

/** The places of roots in a cluster, and the access to it. The only secret, a token, is in a file. */
export interface RootPlaces {
  /** The API server; no slash at the end. */
  readonly server: string;
  readonly serverRootsFile: string | undefined;
  /** The kubelet replaces it. */
  readonly tokenFile: string;
  /** The name of the ConfigMap in every namespace; `undefined` for no ConfigMaps. */
  readonly configMap: string | undefined;
  readonly clusterTrustBundle: boolean;
}

const account = "/var/run/secrets/kubernetes.io/serviceaccount";

/** The keys of any program that delivers roots. docs/distribute.md explains them. */
export const placeKeys: {
  readonly KUBERNETES_SERVER: z.ZodMiniOptional<typeof baseUrl>;
  readonly KUBERNETES_CA_FILE: z.ZodMiniOptional<z.ZodMiniString>;
  readonly KUBERNETES_TOKEN_FILE: z.ZodMiniDefault<z.ZodMiniString>;
  readonly CONFIG_MAP: z.ZodMiniDefault<typeof configMapName>;
  readonly CONFIG_MAPS: z.ZodMiniDefault<z.ZodMiniBoolean>;
  readonly CLUSTER_TRUST_BUNDLE: z.ZodMiniDefault<z.ZodMiniBoolean>;
} = {
  KUBERNETES_SERVER: z.optional(baseUrl),
  KUBERNETES_CA_FILE: z.optional(filePath),
  KUBERNETES_TOKEN_FILE: z._default(filePath, `${account}/token`),
  CONFIG_MAP: z._default(configMapName, usualConfigMap),
  CONFIG_MAPS: z._default(z.boolean(), true),
  CLUSTER_TRUST_BUNDLE: z._default(z.boolean(), false),
};

/** The values of these keys. */
export type PlaceValues = z.infer<z.ZodMiniObject<typeof placeKeys>>;

/** The environment, in which a pod finds the address of its API server. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** @throws ConfigurationError */
export function rootPlacesOf(read: PlaceValues, environment: Environment): RootPlaces {
  const isInCluster = read.KUBERNETES_SERVER === undefined;
  const server = read.KUBERNETES_SERVER ?? serverOf(environment);
  if (server === undefined) {
    throw new ConfigurationError(["KUBERNETES_SERVER: is required outside of a cluster"]);
  }
  if (!read.CONFIG_MAPS && !read.CLUSTER_TRUST_BUNDLE) {
    throw new ConfigurationError(["CONFIG_MAPS: must not be false without CLUSTER_TRUST_BUNDLE"]);
  }
  return {
    server,
    serverRootsFile: read.KUBERNETES_CA_FILE ?? (isInCluster ? `${account}/ca.crt` : undefined),
    tokenFile: read.KUBERNETES_TOKEN_FILE,
    configMap: read.CONFIG_MAPS ? read.CONFIG_MAP : undefined,
    clusterTrustBundle: read.CLUSTER_TRUST_BUNDLE,
  };
}

function serverOf({
  KUBERNETES_SERVICE_HOST: host,
  KUBERNETES_SERVICE_PORT: port = "443",
}: Environment): string | undefined {
  if (!host) return undefined;
  return `https://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
