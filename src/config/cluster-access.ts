import * as z from "zod/mini";
import type { ReviewOrder } from "../authn/trusted-issuer.ts";
import { baseUrl } from "../foundation/text/base-url.ts";
import { bearerToken } from "../foundation/text/bearer-token.ts";
import { configMapName } from "../kubernetes/root-config-map.ts";
import { isCertificateBlocks } from "../pki/encoding/pem.ts";
import { upstreamCredential } from "./upstream-table.ts";

/** The table `kubernetes` of an issuer, checked: access to the cluster's API server. */
export interface ClusterAccessTable {
  readonly server: string;
  readonly ca?: string | undefined;
  readonly credential: string;
  readonly review: ReviewOrder;
  /** Whether the CA delivers its roots to the cluster. Off by default, because it takes rights to write. */
  readonly deliver_roots?: boolean | undefined;
  /** Whether the CA delivers its CRLs to the cluster. */
  readonly deliver_crls?: boolean | undefined;
  /** The name of the ConfigMap with the roots, by any way of delivery. */
  readonly config_map?: string | undefined;
}

/** The names of secrets with credentials for API servers, to which tables refer. */
const clusterCredential = /^CLUSTER_CREDENTIAL(?!.*_FILE$)_[A-Z0-9_]{1,64}$/;

/**
 * The names of all secrets with credentials: those for API servers, and the one for the CA upstream. Names
 * that end in `_FILE` are left to platforms with files.
 */
export const credentialName: RegExp = new RegExp(
  `${clusterCredential.source}|^${upstreamCredential}$`,
);

export const clusterAccess: z.ZodMiniType<ClusterAccessTable> = z.strictObject({
  server: baseUrl,
  ca: z.optional(
    z
      .string()
      .check(z.maxLength(65_536), z.refine(isCertificateBlocks, "must be certificates in PEM")),
  ),
  credential: z
    .string()
    .check(z.regex(clusterCredential, "must be the name CLUSTER_CREDENTIAL_… of a secret")),
  review: z._default(z.enum(["after-keys", "before-keys", "instead-of-keys"]), "after-keys"),
  deliver_roots: z.optional(z.boolean()),
  deliver_crls: z.optional(z.boolean()),
  config_map: z.optional(configMapName),
});

/** A bearer token. Faults never quote it. */
export const credentialText: z.ZodMiniType<string> = z
  .string()
  .check(z.regex(bearerToken, "must be a bearer token on one line"));
