import { z } from "zod";

const label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

/** The name of a namespace: an RFC 1123 label. */
export const NamespaceName: z.ZodType<string, string> = z
  .string()
  .max(63, { error: "must have at most 63 characters", abort: true })
  .regex(new RegExp(`^${label}$`), {
    error: "must be a lower-case RFC 1123 label: a-z, 0-9 and inner hyphens, such as foo",
  });

/** The name of a ServiceAccount or a pod: an RFC 1123 subdomain, whose labels Kubernetes leaves unbounded. */
export const ObjectName: z.ZodType<string, string> = z
  .string()
  .max(253, { error: "must have at most 253 characters", abort: true })
  .regex(new RegExp(`^${label}(\\.${label})*$`), {
    error: "must be a lower-case RFC 1123 subdomain: a-z, 0-9, inner hyphens and dots",
  });
