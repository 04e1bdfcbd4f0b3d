import * as z from "zod/mini";
import { ConfigurationForm, NameForm } from "../../config/form.ts";
import { Host } from "../../foundation/addresses.ts";
import { ConfigurationError } from "../../foundation/errors.ts";
import { SocketAddress } from "../../foundation/socket-address.ts";
import { baseUrl, parsedText } from "../../foundation/text.ts";
import { KubernetesClient } from "../../kubernetes/client.ts";
import { ConfigMapName, configMapName } from "../../kubernetes/names.ts";
import { NodeFetch } from "../../program/http/http-client.ts";
import { credentialInFile } from "./credential-file.ts";

const account = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Where a kubelet keeps the token of a pod. */
export const accountTokenFile: string = `${account}/token`;

/** A path without control characters: a line break at its end, for instance, would name another file. */
export const filePath = z
  .string()
  .check(z.regex(/^\P{Cc}+$/u, "must be a path, without control characters"));

/** The keys of each program that uses an API server. docs/how-to/distribute.md explains them. */
export const apiServerKeys = {
  KUBERNETES_SERVER: z.optional(baseUrl),
  KUBERNETES_CA_FILE: z.optional(filePath),
  KUBERNETES_TOKEN_FILE: z._default(filePath, accountTokenFile),
};

type ApiServerValues = z.infer<z.ZodMiniObject<typeof apiServerKeys>>;

/** Environment variables, in which a pod finds the address of its API server. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads where the API server is: what the configuration names, or what a pod finds in its environment.
 * @throws ConfigurationError if there is neither.
 */
export function apiServerPlaceOf(read: ApiServerValues, environment: Environment) {
  const isInCluster = read.KUBERNETES_SERVER === undefined;
  const server = read.KUBERNETES_SERVER ?? serverOf(environment);
  if (server === undefined) {
    throw new ConfigurationError(["KUBERNETES_SERVER: is required outside of a cluster"]);
  }
  return {
    server,
    serverRootsFile: read.KUBERNETES_CA_FILE ?? (isInCluster ? `${account}/ca.crt` : undefined),
    /** The file of the token, which the kubelet replaces. */
    tokenFile: read.KUBERNETES_TOKEN_FILE,
  };
}

/** The API server of a program, and the files of its access to it. The only secret, a token, is in a file. */
export type ApiServerPlace = Readonly<ReturnType<typeof apiServerPlaceOf>>;

function serverOf({
  KUBERNETES_SERVICE_HOST: host,
  KUBERNETES_SERVICE_PORT: port = "443",
}: Environment): string | undefined {
  if (!host) return undefined;
  return `https://${Host.bracketed(host)}:${port}`;
}

/**
 * Opens a client of an API server. It reads the token file again for each request.
 * @throws OperatorError if the roots of the API server's certificate cannot be read.
 */
export async function openApiServer({
  server,
  serverRootsFile,
  tokenFile,
}: ApiServerPlace): Promise<KubernetesClient> {
  const fetch = await NodeFetch.trustingFile(serverRootsFile);
  return KubernetesClient.create({ server, credential: credentialInFile(tokenFile) }, fetch);
}

/** The keys of each program that delivers roots. docs/how-to/distribute.md explains them. */
export const placeKeys = {
  ...apiServerKeys,
  CONFIG_MAP: z._default(configMapName, ConfigMapName.ofRoots),
  CONFIG_MAPS: z._default(z.boolean(), true),
  CRL_CONFIG_MAPS: z._default(z.boolean(), false),
  CLUSTER_TRUST_BUNDLE: z._default(
    z.union([z.boolean(), z.array(NameForm.signer).check(z.minLength(1), z.maxLength(16))], {
      error: "must be true, false or a list of signer names such as mesh.example.com/workload",
    }),
    false,
  ),
};

type PlaceValues = ApiServerValues & z.infer<z.ZodMiniObject<typeof placeKeys>>;

/**
 * Reads where a program delivers the CA's roots: in ConfigMaps, in a ClusterTrustBundle, or both.
 * @throws ConfigurationError with every error; also if they are delivered nowhere.
 */
export function rootPlacesOf(read: PlaceValues, environment: Environment) {
  const { place, configMap } = ConfigurationForm.together({
    place: () => apiServerPlaceOf(read, environment),
    configMap: () => {
      if (read.CONFIG_MAPS) return read.CONFIG_MAP;
      if (read.CLUSTER_TRUST_BUNDLE) return undefined;
      throw new ConfigurationError(["CONFIG_MAPS: must not be false without CLUSTER_TRUST_BUNDLE"]);
    },
  });
  return {
    ...place,
    /** The name of the ConfigMap in every namespace; `undefined` for no ConfigMaps. */
    configMap,
    deliversCrls: read.CRL_CONFIG_MAPS,
    /** The signer names, each of which gets a ClusterTrustBundle. */
    clusterTrustBundles: signersOf(read.CLUSTER_TRUST_BUNDLE),
  };
}

/** Where a program delivers the CA's roots. */
export type RootPlaces = Readonly<ReturnType<typeof rootPlacesOf>>;

/** Istio's signer by default (docs/explanation/istio.md#root-distribution). */
function signersOf(setting: boolean | readonly string[]): readonly string[] {
  if (typeof setting !== "boolean") return [...new Set(setting)];
  return setting ? ["istio.io/istiod-ca"] : [];
}

/** The keys of each program that reads the CA's trust bundle. */
export const upstreamKeys = {
  UPSTREAM: baseUrl,
  UPSTREAM_CA_FILE: z.optional(filePath),
  CACHE: z.optional(filePath),
};

/** The keys of each program that calls the CA. */
export const accessKeys = {
  ...upstreamKeys,
  TRUST_DOMAIN: z.prefault(NameForm.trustDomain, "cluster.local"),
  TOKEN_FILE: z._default(filePath, "/var/run/secrets/tokens/istio-token"),
  CLUSTER: z._default(NameForm.cluster, "Kubernetes"),
};

/** Where the CA is, the file of roots that verify its certificate, and the folder of newer ones, from parsed keys. */
export function upstreamPlaceOf(read: z.infer<z.ZodMiniObject<typeof upstreamKeys>>) {
  return {
    /** The CA's URL: `https`, or `http` on the loopback interface, without a slash at the end. */
    upstream: read.UPSTREAM,
    /** PEM of the roots of the CA's own certificate, instead of the system's. */
    upstreamRootsFile: read.UPSTREAM_CA_FILE,
    /** The folder in which the newest roots survive a restart. They replace those of the file. */
    cacheFolder: read.CACHE,
  };
}

/** Where the CA is, and the roots that verify its certificate. */
export type UpstreamPlace = Readonly<ReturnType<typeof upstreamPlaceOf>>;

/** Reads where the CA is, and the account by which it knows the program. The only secret, a token, is in a file. */
export function upstreamAccessOf(read: z.infer<z.ZodMiniObject<typeof accessKeys>>) {
  return {
    ...upstreamPlaceOf(read),
    trustDomain: read.TRUST_DOMAIN,
    tokenFile: read.TOKEN_FILE,
    /** The `clusterid` to send with the token. */
    cluster: read.CLUSTER,
  };
}

/** The address on which a server listens. Without a host it is every address of the machine. */
export interface ListenAddress {
  readonly host?: string;
  readonly port: number;
  /** Whether other processes of the same user may listen there too. The kernel distributes connections. */
  readonly reusePort?: boolean;
}

/** `host:port`, `[IPv6]:port` or `:port`. */
export const listenAddress = parsedText<ListenAddress>(
  SocketAddress.parseListening,
  "must be <host>:<port>, [<IPv6 address>]:<port> or :<port>",
);

/** The URL of `/readyz` on this machine for a program that listens there; `undefined` for port 0. */
export const readyUrlAt = ({ host = "127.0.0.1", port }: ListenAddress): string | undefined =>
  port === 0 ? undefined : `http://${Host.bracketed(host)}:${port}/readyz`;
