import { z } from "zod";
import { JsonText } from "./json-text.ts";
import { NamespaceName, ObjectName } from "./kubernetes-names.ts";
import type { TokenClaims } from "./service-account-token.ts";
import { uidOf } from "./service-account-token.ts";

const Audience = z.string().min(1).max(256);
const Audiences = z.array(Audience).max(16);

/** Kubernetes' own bounds (pkg/apis/authentication/validation): ten minutes to 2^32 seconds. */
const ExpirationSeconds = z
  .int()
  .min(600, "must be at least 600, ten minutes")
  .max(2 ** 32, "must be at most 4294967296");

const once = <Output>(schema: z.ZodType<Output, string>) =>
  z
    .array(z.string(), { error: "is required" })
    .length(1, { error: "must be given once", abort: true })
    .transform((values) => values.join())
    .pipe(schema);

const TokenQuery = z
  .strictObject({
    namespace: once(NamespaceName),
    serviceaccount: once(ObjectName),
    audience: Audiences.default(["istio-ca"]),
    expirationSeconds: once(
      z
        .string()
        .regex(/^[0-9]{1,10}$/, { error: "must be a number of seconds", abort: true })
        .transform(Number)
        .pipe(ExpirationSeconds),
    ).default(3600),
  })
  .transform(
    (query): TokenClaims => ({
      namespace: query.namespace,
      serviceAccount: query.serviceaccount,
      audiences: query.audience,
      expirationSeconds: query.expirationSeconds,
    }),
  );

/**
 * The token that a query string asks for.
 *
 * @throws ZodError for a name no Kubernetes object can have, a value out of bounds, and a parameter
 * that is missing, repeated or unknown.
 */
export function parseTokenQuery(query: URLSearchParams): TokenClaims {
  const names = [...new Set(query.keys())];
  return TokenQuery.parse(Object.fromEntries(names.map((name) => [name, query.getAll(name)])));
}

const BoundPod = z.strictObject({
  kind: z.literal("Pod"),
  apiVersion: z.literal("v1").optional(),
  name: ObjectName,
  uid: z.string().max(64).optional(),
});

/** Clients of Kubernetes send absent fields as null, and metadata and status that mean nothing here. */
const TokenRequest = z.object({
  kind: z.literal("TokenRequest").optional(),
  apiVersion: z.literal("authentication.k8s.io/v1").optional(),
  spec: z.strictObject({
    audiences: Audiences.nullish(),
    expirationSeconds: ExpirationSeconds.nullish(),
    boundObjectRef: BoundPod.nullish(),
  }),
});

const Path = z.object({ namespace: NamespaceName, name: ObjectName });

/**
 * The token that a TokenRequest asks for. Without audiences it is one for the issuer itself, as an
 * API server's is.
 *
 * @throws ZodError for anything that Kubernetes would refuse, and for bound objects other than pods.
 */
export function parseTokenRequest(
  path: { namespace: string; name: string },
  body: string,
  issuer: string,
): TokenClaims {
  const { namespace, name } = Path.parse(path);
  const { spec } = JsonText.pipe(TokenRequest).parse(body);
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
