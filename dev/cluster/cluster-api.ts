import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import type { JWK } from "jose";
import * as z from "zod/mini";
import type { TokenClaims } from "./service-account-token.ts";
import { parseTokenQuery, parseTokenRequest } from "./token-request.ts";

/** The parts of the development cluster that its HTTP API needs. */
interface ClusterApiOptions {
  readonly issuer: string;
  readonly publicJwk: JWK;
  readonly mint: (claims: TokenClaims) => Promise<string>;
}

const maximumBodyBytes = 16 * 1024;

const description = (issuer: string) => `\
Rampart's development cluster: an OIDC issuer that mints ServiceAccount tokens for every caller.

GET  ${issuer}/.well-known/openid-configuration
GET  ${issuer}/openid/v1/jwks
GET  ${issuer}/token?namespace=foo&serviceaccount=httpbin
     the bare token; &audience=istio-ca (may repeat) and &expirationSeconds=3600 are optional
POST ${issuer}/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token
     Kubernetes' TokenRequest: {"spec":{"audiences":["istio-ca"],"expirationSeconds":3600}}
`;

/** The development cluster's routes: OIDC discovery, its keys, and two ways to get a token. */
export function clusterApi({ issuer, publicJwk, mint }: ClusterApiOptions): Hono {
  const api = new Hono();
  api.use(
    bodyLimit({
      maxSize: maximumBodyBytes,
      onError: (c) => c.text(`a body may have at most ${maximumBodyBytes} bytes\n`, 413),
    }),
  );
  api.get("/", (c) => c.text(description(issuer)));
  api.get("/.well-known/openid-configuration", (c) => c.json(discovery(issuer)));
  api.get("/openid/v1/jwks", (c) =>
    c.json({ keys: [publicJwk] }, 200, { "content-type": "application/jwk-set+json" }),
  );
  api.get("/token", async (c) => {
    const token = await mint(parseTokenQuery(new URL(c.req.url).searchParams));
    return c.text(`${token}\n`, 200, { "cache-control": "no-store" });
  });
  api.post("/api/v1/namespaces/:namespace/serviceaccounts/:name/token", async (c) => {
    const claims = parseTokenRequest(c.req.param(), await c.req.text(), issuer);
    return c.json(tokenRequest(claims, await mint(claims), new Date()), 201);
  });
  api.notFound((c) =>
    c.text(
      `the development cluster has no ${c.req.method} ${c.req.path}\n\n${description(issuer)}`,
      404,
    ),
  );
  api.onError((error, c) => {
    if (error instanceof z.core.$ZodError) return c.text(faultText(error), 400);
    console.error(error);
    return c.text("the development cluster failed: its output has the error\n", 500);
  });
  return api;
}

function faultText({ issues }: z.core.$ZodError): string {
  return issues
    .map(({ path, message }) => `${[path.join("."), message].filter(Boolean).join(": ")}\n`)
    .join("");
}

function discovery(issuer: string) {
  return {
    issuer,
    jwks_uri: `${issuer}/openid/v1/jwks`,
    response_types_supported: ["id_token"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: ["RS256"],
  };
}

function tokenRequest(claims: TokenClaims, token: string, now: Date) {
  const expiration = new Date(now.getTime() + claims.expirationSeconds * 1000);
  return {
    kind: "TokenRequest",
    apiVersion: "authentication.k8s.io/v1",
    metadata: { name: claims.serviceAccount, namespace: claims.namespace },
    spec: { audiences: claims.audiences, expirationSeconds: claims.expirationSeconds },
    status: { token, expirationTimestamp: expiration.toISOString().replace(/\.\d+Z$/, "Z") },
  };
}
