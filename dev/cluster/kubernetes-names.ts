import * as z from "zod/mini";

const label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

/** The name of a namespace: an RFC 1123 label. */
export const NamespaceName: z.ZodMiniType<string, string> = z
  .string()
  .check(
    z.maxLength(63, { error: "must have at most 63 characters", abort: true }),
    z.regex(
      new RegExp(`^${label}$`),
      "must be a lower-case RFC 1123 label: a-z, 0-9 and inner hyphens, such as foo",
    ),
  );

/** The name of a ServiceAccount or a pod: an RFC 1123 subdomain. Kubernetes does not bound its labels. */
export const ObjectName: z.ZodMiniType<string, string> = z
  .string()
  .check(
    z.maxLength(253, { error: "must have at most 253 characters", abort: true }),
    z.regex(
      new RegExp(`^${label}(\\.${label})*$`),
      "must be a lower-case RFC 1123 subdomain: a-z, 0-9, inner hyphens and dots",
    ),
  );
