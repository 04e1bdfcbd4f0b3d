import * as z from "zod/mini";
import { inEnglish } from "../../src/foundation/english.ts";
import { JsonText } from "../json-text.ts";
import { type TokenClaims, uidOf } from "./service-account-token.ts";

const label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

/** The name of a namespace: an RFC 1123 label. */
const NamespaceName: z.ZodMiniType<string, string> = z
  .string()
  .check(
    z.maxLength(63, { error: "must have at most 63 characters", abort: true }),
    z.regex(
      new RegExp(`^${label}$`),
      "must be a lower-case RFC 1123 label: a-z, 0-9 and inner hyphens, such as foo",
    ),
  );

/** The name of a ServiceAccount or a pod: an RFC 1123 subdomain. Kubernetes does not bound its labels. */
const ObjectName: z.ZodMiniType<string, string> = z
  .string()
  .check(
    z.maxLength(253, { error: "must have at most 253 characters", abort: true }),
    z.regex(
      new RegExp(`^${label}(\\.${label})*$`),
      "must be a lower-case RFC 1123 subdomain: a-z, 0-9, inner hyphens and dots",
    ),
  );

const Audience = z.string().check(z.minLength(1), z.maxLength(256));
const Audiences = z.array(Audience).check(z.maxLength(16));

/** Kubernetes' bounds (kubernetes `pkg/apis/authentication/validation`): ten minutes to 2^32 seconds. */
const ExpirationSeconds = z
  .int()
  .check(
    z.minimum(600, "must be at least 600, ten minutes"),
    z.maximum(2 ** 32, "must be at most 4294967296"),
  );

const OneText = z.pipe(
  z
    .array(z.string(), "is required")
    .check(z.length(1, { error: "must be given once", abort: true })),
  z.transform((values) => values.join()),
);

const once = <Output>(schema: z.ZodMiniType<Output, string>) => z.pipe(OneText, schema);

const Digits = z
  .string()
  .check(z.regex(/^[0-9]{1,10}$/, { error: "must be a number of seconds", abort: true }));
const SecondsText = z.pipe(z.pipe(Digits, z.transform(Number)), ExpirationSeconds);

const TokenQuery = z.strictObject({
  namespace: once(NamespaceName),
  serviceaccount: once(ObjectName),
  audience: z._default(Audiences, ["istio-ca"]),
  expirationSeconds: z._default(once(SecondsText), 3600),
});

/**
 * Reads the token request in a query string.
 *
 * @throws ZodError for a name that Kubernetes does not allow, a value out of bounds, and a parameter that
 *   is missing, repeated or unknown.
 */
export function parseTokenQuery(query: URLSearchParams): TokenClaims {
  const names = [...new Set(query.keys())];
  const values = Object.fromEntries(names.map((name) => [name, query.getAll(name)]));
  const asked = TokenQuery.parse(values, inEnglish);
  return {
    namespace: asked.namespace,
    serviceAccount: asked.serviceaccount,
    audiences: asked.audience,
    expirationSeconds: asked.expirationSeconds,
  };
}

const BoundPod = z.strictObject({
  kind: z.literal("Pod"),
  apiVersion: z.optional(z.literal("v1")),
  name: ObjectName,
  uid: z.optional(z.string().check(z.maxLength(64))),
});

/** Kubernetes clients send absent fields as null, and `metadata` and `status`, which are ignored here. */
const TokenRequest = z.object({
  kind: z.optional(z.literal("TokenRequest")),
  apiVersion: z.optional(z.literal("authentication.k8s.io/v1")),
  spec: z.strictObject({
    audiences: z.nullish(Audiences),
    expirationSeconds: z.nullish(ExpirationSeconds),
    boundObjectRef: z.nullish(BoundPod),
  }),
});

const Path = z.object({ namespace: NamespaceName, name: ObjectName });

/**
 * Reads a TokenRequest. A request without audiences gets the issuer as its audience, as from an API server.
 *
 * @throws ZodError for every request that Kubernetes would refuse, and for bound objects other than pods.
 */
export function parseTokenRequest(
  path: { namespace: string; name: string },
  body: string,
  issuer: string,
): TokenClaims {
  const { namespace, name } = Path.parse(path, inEnglish);
  const { spec } = z.pipe(JsonText, TokenRequest).parse(body, inEnglish);
  const pod = spec.boundObjectRef;
  return {
    namespace,
    serviceAccount: name,
    audiences: spec.audiences?.length ? spec.audiences : [issuer],
    expirationSeconds: spec.expirationSeconds ?? 3600,
    ...(pod && {
      pod: { name: pod.name, uid: pod.uid ?? uidOf("pod", `${namespace}/${pod.name}`) },
    }),
  };
}
