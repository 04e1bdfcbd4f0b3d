import * as z from "zod/mini";

/** The name of a pod, an account or a node: a DNS subdomain (RFC 1123). */
export const objectName: z.ZodMiniType<string, string> = z
  .string()
  .check(z.regex(/^[a-z0-9][a-z0-9.-]{0,252}$/));

/** The ConfigMap in which Istio expects the roots of the mesh (docs/explanation/istio.md#root-distribution). */
export const usualConfigMap = "istio-ca-root-cert";
/** Istio's fixed name for the ConfigMap with CRLs. */
export const crlConfigMap = "istio-ca-crl";

/** The name that an operator gives to the ConfigMap with roots. */
export const configMapName: z.ZodMiniType<string, string> = z.string().check(
  z.regex(/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/, "must be the name of a ConfigMap"),
  z.refine((name) => name !== crlConfigMap, "is the ConfigMap with CRLs"),
);
