import * as z from "zod/mini";
import { clusterName, filePath, trustDomainText } from "../../config/form.ts";
import { baseUrl } from "../../foundation/text.ts";

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
export function upstreamPlaceOf(read: z.infer<z.ZodMiniObject<typeof upstreamKeys>>) {
  return {
    /** `https`, or `http` on the loopback interface. No slash at the end. */
    upstream: read.UPSTREAM,
    /** PEM of the roots of the CA's own certificate, instead of the system's. */
    upstreamRootsFile: read.UPSTREAM_CA_FILE,
  };
}

export type UpstreamPlace = Readonly<ReturnType<typeof upstreamPlaceOf>>;

/** The CA, and the account by which it knows the program. The only secret, a token, is in a file. */
export function upstreamAccessOf(read: z.infer<z.ZodMiniObject<typeof accessKeys>>) {
  return {
    ...upstreamPlaceOf(read),
    trustDomain: read.TRUST_DOMAIN,
    tokenFile: read.TOKEN_FILE,
    /** The `clusterid` that goes with the token. */
    cluster: read.CLUSTER,
  };
}
