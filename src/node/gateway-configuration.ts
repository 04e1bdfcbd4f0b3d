import * as z from "zod";
import { isSafeToFetch } from "../authn/issuer-keys.ts";
import { parseForm, trustDomainText } from "../config/configuration.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import type { ListenAddress } from "./listen-address.ts";
import { type CertificateFiles, certificateFilesOf, servingKeys } from "./serve-configuration.ts";

/** What `rampart gateway` needs to know. It has no secret but its token, which is in a file. */
export interface GatewayConfiguration {
  readonly trustDomain: TrustDomain;
  /** The CA behind it: `https`, or on the loopback interface `http`; no slash at the end. */
  readonly upstream: string;
  /** PEM of the roots of the upstream's own certificate, instead of the system's. */
  readonly upstreamRootsFile: string | undefined;
  readonly tokenFile: string;
  /** The `clusterid` that goes with that token. */
  readonly cluster: string;
  readonly listen: ListenAddress;
  readonly monitoringListen: ListenAddress;
  readonly certificateFiles: CertificateFiles | undefined;
}

const form = z.strictObject({
  UPSTREAM: z.string().refine(isSafeToFetch, "must be an https URL"),
  UPSTREAM_CA_FILE: z.string().min(1).optional(),
  TRUST_DOMAIN: trustDomainText.prefault("cluster.local"),
  TOKEN_FILE: z.string().min(1).default("/var/run/secrets/tokens/istio-token"),
  CLUSTER: z
    .string()
    .regex(/^[A-Za-z0-9._/-]{1,253}$/, "must be a cluster's name")
    .default("Kubernetes"),
  ...servingKeys,
});

/** The names of all keys, in the order of the table in docs/gateway.md. */
export const gatewayKeys: readonly string[] = Object.keys(form.shape);

/** @throws ConfigurationError */
export function parseGatewayConfiguration(
  values: Readonly<Record<string, unknown>>,
): GatewayConfiguration {
  const read = parseForm(form, values);
  return {
    trustDomain: read.TRUST_DOMAIN,
    upstream: read.UPSTREAM.replace(/\/+$/, ""),
    upstreamRootsFile: read.UPSTREAM_CA_FILE,
    tokenFile: read.TOKEN_FILE,
    cluster: read.CLUSTER,
    listen: read.LISTEN,
    monitoringListen: read.MONITORING_LISTEN,
    certificateFiles: certificateFilesOf(read),
  };
}
