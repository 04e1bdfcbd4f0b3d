import { expect, test } from "vitest";
import { startCa } from "../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../testkit/callers/tokens.ts";
import { issuer } from "../testkit/configuration.ts";
import { apiCredential, startApiServer } from "../testkit/kubernetes/api-server.ts";
import { refusalOf } from "../testkit/refusal.ts";

const credential = "CLUSTER_CREDENTIAL_A";

test("an API server that is busy or away is logged by its cluster, and its credential is not", async () => {
  const key = await createTokenKey("ES256", "k1");
  const api = await startApiServer();
  const kubernetes = { server: api.origin, credential, review: "before-keys" };
  const { certificateAuthority, log, now, pass } = await startCa({
    ISSUERS: [{ issuer, jwks: jwksOf(key), kubernetes }],
    [credential]: apiCredential,
  });
  const judge = async () => {
    const token = await mintAccountToken(key, issuer, "foo:bar", now());
    const headers = new Headers({ authorization: `Bearer ${token}` });
    return certificateAuthority.authenticate({ headers }, now());
  };
  api.review = () => ({ user: {}, error: "the pod is gone" });
  expect(await refusalOf(judge)).toEqual({ reason: "credential-rejected", check: "review" });
  const caller = { spiffeId: "spiffe://cluster.local/ns/foo/sa/bar" };
  const busy = { reason: "cluster-busy", cluster: "Kubernetes" };
  api.instead = (_, response) => response.writeHead(429).end();
  pass(60);
  expect(await refusalOf(judge)).toEqual(busy);
  api.instead = (_, response) => response.writeHead(503).end();
  pass(60);
  expect(await judge()).toMatchObject(caller);
  await api.close();
  pass(60);
  expect(await judge()).toMatchObject(caller);
  const away = { event: "cluster-unreachable", level: "warning", cluster: "Kubernetes" };
  expect(log.operations).toMatchObject([{ ...away, event: "cluster-busy" }, away, away]);
  expect(JSON.stringify(log.operations)).not.toContain(apiCredential);
});
