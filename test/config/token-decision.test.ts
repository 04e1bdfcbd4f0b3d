import { beforeAll, describe, expect, test } from "vitest";
import type { CertificateAuthority } from "../../src/transport/certificate-authority.ts";
import { startCa } from "../testkit/ca/running-ca.ts";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../testkit/callers/tokens.ts";
import { issuer } from "../testkit/configuration.ts";
import {
  apiCredential,
  type FakeApiServer,
  goodReview,
  startApiServer,
} from "../testkit/kubernetes/api-server.ts";
import { refusalOf } from "../testkit/refusal.ts";

const credential = "CLUSTER_CREDENTIAL_A";

test("a credential that is missing stops the start", async () => {
  const ISSUERS = [{ issuer, kubernetes: { server: "https://10.0.0.1:6443", credential } }];
  await expect(startCa({ ISSUERS })).rejects.toThrow(`${credential}: is required`);
});

describe("who decides on a token", () => {
  let key: TokenKey;
  let other: TokenKey;

  beforeAll(async () => {
    [key, other] = await Promise.all([
      createTokenKey("ES256", "k1"),
      createTokenKey("ES256", "k2"),
    ]);
  });

  /** A CA with the first key inline, and with access to an API server. */
  async function judged(review: string, use: (court: Court) => Promise<void>): Promise<void> {
    const api = await startApiServer();
    const kubernetes = { server: api.origin, credential, review };
    const { certificateAuthority, log, now } = await startCa({
      ISSUERS: [{ issuer, jwks: jwksOf(key), kubernetes }],
      [credential]: apiCredential,
    });
    const judge: Court["judge"] = async (signer, claims = {}) => {
      const token = await mintAccountToken(signer, issuer, "foo:bar", now(), claims);
      const headers = new Headers({ authorization: `Bearer ${token}` });
      return certificateAuthority.authenticate({ headers }, now());
    };
    try {
      await use({ api, judge, log });
    } finally {
      await api.close();
    }
  }

  interface Court {
    readonly api: FakeApiServer;
    readonly judge: (
      signer: TokenKey,
      claims?: Record<string, unknown>,
    ) => ReturnType<CertificateAuthority["authenticate"]>;
    readonly log: { readonly operations: readonly unknown[] };
  }

  const caller = { spiffeId: "spiffe://cluster.local/ns/foo/sa/bar" };
  const rejected = (check: string) => ({ reason: "credential-rejected", check });
  const good = () => goodReview("foo:bar");

  test("after-keys: the keys, without a question", () =>
    judged("after-keys", async ({ api, judge }) => {
      api.review = () => ({ user: {} });
      expect(await judge(key)).toMatchObject(caller);
      expect(api.asked).toEqual([]);
    }));

  test("after-keys: the API server, for a key that is not known", () =>
    judged("after-keys", async ({ api, judge }) => {
      api.review = good;
      expect(await judge(other)).toMatchObject(caller);
      api.review = () => ({ user: {} });
      expect(await refusalOf(() => judge(other))).toEqual(rejected("review"));
    }));

  test.each(["after-keys", "before-keys"])(
    "%s: never the API server where the keys have said no",
    (review) =>
      judged(review, async ({ api, judge }) => {
        api.review = good;
        const forged = { ...other, publicJwk: { ...other.publicJwk, kid: "k1" } };
        expect(await refusalOf(() => judge(forged))).toEqual(rejected("signature"));
        expect(await refusalOf(() => judge(key, { aud: ["x"] }))).toEqual(rejected("audience"));
        expect(await refusalOf(() => judge(key, { exp: 1 }))).toEqual(rejected("time"));
        expect(api.asked).toEqual([]);
      }),
  );

  test("before-keys: the API server, though the signature is good", () =>
    judged("before-keys", async ({ api, judge }) => {
      api.review = () => ({ user: {}, error: "the pod is gone" });
      expect(await refusalOf(() => judge(key))).toEqual(rejected("review"));
    }));

  test("before-keys: nobody while it is busy, which is logged", () =>
    judged("before-keys", async ({ api, judge, log }) => {
      api.instead = (_, response) => response.writeHead(429).end();
      const busy = { reason: "cluster-busy", cluster: "Kubernetes" };
      expect(await refusalOf(() => judge(key))).toEqual(busy);
      expect(log.operations).toMatchObject([{ event: "cluster-busy", cluster: "Kubernetes" }]);
    }));

  test("before-keys: the keys while it is away, which is logged", () =>
    judged("before-keys", async ({ api, judge, log }) => {
      api.instead = (_, response) => response.writeHead(503).end();
      expect(await judge(key)).toMatchObject(caller);
      expect(log.operations).toMatchObject([
        { event: "cluster-unreachable", cluster: "Kubernetes" },
      ]);
      expect(await refusalOf(() => judge(other))).toEqual(rejected("key"));
    }));

  test("instead-of-keys: the API server alone", () =>
    judged("instead-of-keys", async ({ api, judge }) => {
      api.review = good;
      expect(await judge(other)).toMatchObject(caller);
      api.instead = (_, response) => response.writeHead(503).end();
      const refusal = await refusalOf(() => judge(key));
      expect(refusal).toEqual({ reason: "cluster-unreachable", cluster: "Kubernetes" });
    }));

  test("nobody's credential is in the log", () =>
    judged("before-keys", async ({ api, judge, log }) => {
      await api.close();
      await judge(key);
      expect(JSON.stringify(log.operations)).not.toContain(apiCredential);
    }));
});
