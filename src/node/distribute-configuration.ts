import * as z from "zod";
import { isSafeToFetch } from "../authn/issuer-keys.ts";
import { configMapName, usualConfigMap } from "../ca/root-config-map.ts";
import { parseForm } from "../config/configuration.ts";
import { ConfigurationError } from "../config/configuration-error.ts";
import { type ListenAddress, listenAddress } from "./listen-address.ts";

/** What `rampart distribute` needs to know. Its one secret, a token, is in a file that the kubelet replaces. */
export interface DistributeConfiguration {
  /** The CA; no slash at the end. */
  readonly upstream: string;
  readonly upstreamRootsFile: string | undefined;
  /** The API server; no slash at the end. */
  readonly server: string;
  readonly serverRootsFile: string | undefined;
  readonly tokenFile: string;
  /** The name of the ConfigMap in every namespace; nothing for none. */
  readonly configMap: string | undefined;
  readonly clusterTrustBundle: boolean;
  readonly monitoringListen: ListenAddress;
}

const account = "/var/run/secrets/kubernetes.io/serviceaccount";
const url = z
  .string()
  .refine(isSafeToFetch, "must be an https URL")
  .transform((text) => text.replace(/\/+$/, ""));
const path = z.string().min(1, "must not be empty");

const form = z.strictObject({
  UPSTREAM: url,
  UPSTREAM_CA_FILE: path.optional(),
  KUBERNETES_SERVER: url.optional(),
  KUBERNETES_CA_FILE: path.optional(),
  KUBERNETES_TOKEN_FILE: path.default(`${account}/token`),
  CONFIG_MAP: configMapName.default(usualConfigMap),
  CONFIG_MAPS: z.boolean().default(true),
  CLUSTER_TRUST_BUNDLE: z.boolean().default(false),
  MONITORING_LISTEN: listenAddress.prefault(":15014"),
});

/** The names of all keys, in the order of the table in docs/distribute.md. */
export const distributeKeys: readonly string[] = Object.keys(form.shape);

/**
 * @param environment Where a pod finds its API server.
 * @throws ConfigurationError
 */
export function parseDistributeConfiguration(
  values: Readonly<Record<string, unknown>>,
  environment: Readonly<Record<string, string | undefined>>,
): DistributeConfiguration {
  const read = parseForm(form, values);
  const isInCluster = read.KUBERNETES_SERVER === undefined;
  const server = read.KUBERNETES_SERVER ?? serverOf(environment);
  if (server === undefined) {
    throw new ConfigurationError(["KUBERNETES_SERVER: is required outside of a cluster"]);
  }
  if (!read.CONFIG_MAPS && !read.CLUSTER_TRUST_BUNDLE) {
    throw new ConfigurationError(["CONFIG_MAPS: must not be false without CLUSTER_TRUST_BUNDLE"]);
  }
  return {
    upstream: read.UPSTREAM,
    upstreamRootsFile: read.UPSTREAM_CA_FILE,
    server,
    serverRootsFile: read.KUBERNETES_CA_FILE ?? (isInCluster ? `${account}/ca.crt` : undefined),
    tokenFile: read.KUBERNETES_TOKEN_FILE,
    configMap: read.CONFIG_MAPS ? read.CONFIG_MAP : undefined,
    clusterTrustBundle: read.CLUSTER_TRUST_BUNDLE,
    monitoringListen: read.MONITORING_LISTEN,
  };
}

function serverOf({
  KUBERNETES_SERVICE_HOST: host,
  KUBERNETES_SERVICE_PORT: port = "443",
}: Readonly<Record<string, string | undefined>>): string | undefined {
  if (!host) return undefined;
  return `https://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
