import * as z from "zod/mini";

/** The name of a pod, an account or a node: of the characters and length of a DNS subdomain (RFC 1123). */
export const objectName: z.ZodMiniType<string, string> = z
  .string()
  .check(z.regex(/^[a-z0-9][a-z0-9.-]{0,252}$/));

/** The UID of a pod that a signer of a cluster may name. */
export const podUid: z.ZodMiniString = z.string().check(z.regex(/^[A-Za-z0-9-]{1,64}$/));

/** Names of ConfigMaps. */
export const ConfigMapName = {
  /** The ConfigMap in which Istio expects the roots of the mesh (docs/explanation/istio.md#root-distribution). */
  ofRoots: "istio-ca-root-cert" as const,

  /** Istio's fixed name for the ConfigMap with CRLs. */
  ofCrls: "istio-ca-crl" as const,
};

/** The name that an operator gives to the ConfigMap with roots; not that of the CRLs. */
export const configMapName: z.ZodMiniType<string, string> = z.string().check(
  z.regex(/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/, "must be the name of a ConfigMap"),
  z.refine((name) => name !== ConfigMapName.ofCrls, "is the ConfigMap with CRLs"),
);
