import * as z from "zod/mini";
import { clusterName, filePath, trustDomainText } from "../../config/form.ts";
import { baseUrl } from "../../foundation/text.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";

/** The CA that a program asks, and the file of roots by which it knows that CA. */
export interface UpstreamPlace {
  /** `https`, or `http` on the loopback interface. No slash at the end. */
  readonly upstream: string;
  /** PEM of the roots of the CA's own certificate, instead of the system's. */
  readonly upstreamRootsFile: string | undefined;
}

/** The CA, and the account by which it knows the program. The only secret, a token, is in a file. */
export interface UpstreamAccess extends UpstreamPlace {
  readonly trustDomain: TrustDomain;
  readonly tokenFile: string;
  /** The `clusterid` that goes with the token. */
  readonly cluster: string;
}

/** The keys of any program that reads the CA's trust bundle. */
export const upstreamKeys = {
  UPSTREAM: baseUrl,
  UPSTREAM_CA_FILE: z.optional(filePath),
};

/** The keys of any program that calls the CA. */
export const accessKeys = {
  ...upstreamKeys,
  TRUST_DOMAIN: z.prefault(trustDomainText, "cluster.local"),
  TOKEN_FILE: z._default(filePath, "/var/run/secrets/tokens/istio-token"),
  CLUSTER: z._default(clusterName, "Kubernetes"),
};

/** The CA that these keys name. */
export function upstreamPlaceOf(
  read: z.infer<z.ZodMiniObject<typeof upstreamKeys>>,
): UpstreamPlace {
  return { upstream: read.UPSTREAM, upstreamRootsFile: read.UPSTREAM_CA_FILE };
}

/** The CA and the account that these keys name. */
export function upstreamAccessOf(
  read: z.infer<z.ZodMiniObject<typeof accessKeys>>,
): UpstreamAccess {
  return {
    ...upstreamPlaceOf(read),
    trustDomain: read.TRUST_DOMAIN,
    tokenFile: read.TOKEN_FILE,
    cluster: read.CLUSTER,
  };
}
