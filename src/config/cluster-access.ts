import * as z from "zod/mini";
import type { ReviewOrder } from "../authn/trusted-issuer.ts";
import { baseUrl } from "../foundation/base-url.ts";
import { ConfigurationError } from "../foundation/configuration-error.ts";
import { CaError } from "../foundation/errors.ts";
import {
  type ApiServer,
  type ClusterUnreachable,
  type Credential,
  createApiServer,
  createKubernetesApi,
  type Fetch,
  type KubernetesAccess,
  type KubernetesApi,
} from "../kubernetes/api-server.ts";
import { configMapName } from "../kubernetes/root-config-map.ts";

/** The table `kubernetes` of an issuer, checked: access that a cluster has given to its API. */
export interface ClusterAccessTable {
  readonly server: string;
  readonly ca?: string | undefined;
  readonly credential: string;
  readonly review: ReviewOrder;
  /** Whether the CA keeps its roots there: not unless it is said, since that takes rights to write. */
  readonly deliver_roots?: boolean | undefined;
  /** Of the roots, whoever delivers them. */
  readonly config_map?: string | undefined;
}

/**
 * The names of secrets that are credentials for clusters; a table says which is whose. One that ends
 * in `_FILE` would be the name of a file, where there are files.
 */
export const credentialName: RegExp = /^CLUSTER_CREDENTIAL(?!.*_FILE$)_[A-Z0-9_]{1,64}$/;

const certificates =
  /^(?:\s*-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----)+\s*$/;

export const clusterAccess: z.ZodMiniType<ClusterAccessTable> = z.strictObject({
  server: baseUrl,
  ca: z.optional(
    z.string().check(z.maxLength(65_536), z.regex(certificates, "must be certificates in PEM")),
  ),
  credential: z
    .string()
    .check(z.regex(credentialName, "must be the name CLUSTER_CREDENTIAL_… of a secret")),
  review: z._default(z.enum(["after-keys", "before-keys", "instead-of-keys"]), "after-keys"),
  deliver_roots: z.optional(z.boolean()),
  config_map: z.optional(configMapName),
});

/** A bearer token; what is wrong is said without it. */
export const credentialText: z.ZodMiniType<string> = z
  .string()
  .check(z.regex(/^[\x21-\x7e]{1,16384}$/, "must be a bearer token on one line"));

/**
 * How a platform reaches an API server, whose certificate may be of a CA of its own (PEM).
 *
 * @throws ConfigurationError where the platform can trust no such CA.
 */
export type ClusterFetch = (ca: string | undefined) => Fetch;

/** All that it takes to talk to a cluster. */
export interface ReachableCluster extends KubernetesAccess {
  readonly fetch: Fetch;
  readonly unreachable: ClusterUnreachable;
}

/** What access is made from. */
export interface ClusterAccess {
  readonly fetch: ClusterFetch;
  readonly credentials: ReadonlyMap<string, Credential>;
  readonly unreachable: ClusterUnreachable;
}

/** A cluster within reach; nothing is asked yet. @throws ConfigurationError */
export function reachCluster(
  cluster: string,
  { server, ca, credential: name }: ClusterAccessTable,
  { fetch, credentials, unreachable }: ClusterAccess,
): ReachableCluster {
  const credential = requireCredential(name, credentials);
  return { cluster, server, credential, fetch: fetch(ca), unreachable };
}

/** Its API. @throws ConfigurationError */
export function clusterApi(
  cluster: string,
  table: ClusterAccessTable,
  access: ClusterAccess,
): KubernetesApi {
  const reach = reachCluster(cluster, table, access);
  return createKubernetesApi(reach, reach.fetch, reach.unreachable);
}

/** The same for questions that nobody waits for. @throws ConfigurationError */
export function clusterServer(
  { server, ca, credential: name }: ClusterAccessTable,
  { fetch, credentials }: Omit<ClusterAccess, "unreachable">,
): ApiServer {
  return createApiServer({ server, credential: requireCredential(name, credentials) }, fetch(ca));
}

function requireCredential(name: string, credentials: ClusterAccess["credentials"]): Credential {
  const credential = credentials.get(name);
  if (!credential) throw new ConfigurationError([`${name}: is required`]);
  return credential;
}

/** Where nothing authenticates, as in an operator's terminal, no credential is needed either. */
export function noApi(cluster: string): KubernetesApi {
  return async () => {
    throw new CaError({ reason: "cluster-unreachable", cluster }, "no way to the API server");
  };
}
