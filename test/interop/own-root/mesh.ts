import { X509Certificate } from "node:crypto";
import { pemsOf, SdsStream } from "../../testkit/agent/sds-client.ts";
import { type Certified, startAgent as startCertified } from "../revocation/workloads.ts";
import type { ServingCa } from "../serving-ca.ts";

/** A life half of which outlasts a busy moment, and that makes every phase of an authority short. */
export const leafSeconds = 15;

/** What every CA of the suite has in its configuration. */
export const shortLives = {
  CRL: "off",
  PROPAGATION_INTERVAL: "1s",
  MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
  DEFAULT_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
};

/** Starts `rampart agent` for `mesh/<name>`, which renews often. */
export const startAgent = (
  ca: ServingCa,
  folder: string,
  name: string,
  TRUST_DOMAIN = "cluster.local",
): Promise<Certified> =>
  startCertified({ folder, ca }, name, {
    RAMPART_BUNDLE_URL: `${ca.published}/bundle.json`,
    SECRET_TTL: `${leafSeconds}s`,
    SECRET_GRACE_PERIOD_RATIO: "0.6",
    TRUST_DOMAIN,
  });

/** The certificates that an Envoy has now: its leaf, then what is between that and a root. */
export async function chainOf({ socket }: Certified): Promise<readonly X509Certificate[]> {
  const stream = new SdsStream(socket);
  stream.subscribe("default");
  const [pem = ""] = (await stream.secrets()).flatMap(pemsOf);
  stream.end();
  return pem.split(/(?=-----BEGIN CERTIFICATE)/).map((each) => new X509Certificate(each));
}

/** The intermediate that has signed the leaf of an Envoy. */
export async function intermediateOf(workload: Certified): Promise<X509Certificate> {
  const [, intermediate] = await chainOf(workload);
  if (!intermediate) throw new Error("a chain without an intermediate");
  return intermediate;
}
