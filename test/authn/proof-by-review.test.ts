import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createTokenAuthenticator } from "../../src/authn/token-authenticator.ts";
import type { TokenIssuer } from "../../src/authn/token-issuer.ts";
import { TokenReview } from "../../src/authn/token-review.ts";
import type { Refusal } from "../../src/foundation/refusal.ts";
import { TrustDomain } from "../../src/pki/spiffe-id.ts";
import { IdentityProof } from "../../src/pki/x509/leaf/identity-proof.ts";
import { wholeSeconds } from "../../src/pki/x509/validity.ts";
import { tokenIssuer } from "../testkit/callers/token-issuers.ts";
import { createTokenKey, mintAccountToken } from "../testkit/callers/tokens.ts";
import {
  apiCredential,
  clusterApiAt,
  type FakeApiServer,
  goodReview,
  startApiServer,
} from "../testkit/kubernetes/api-server.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-11-21T12:00:00.500Z");
const trustDomain = TrustDomain.parse("example.com") as TrustDomain;
const issuerOf = (cluster: string) => `https://${cluster.toLowerCase()}.test`;

const key = await createTokenKey("ES256", "k1");
let local: FakeApiServer;
let remote: FakeApiServer;

beforeEach(async () => {
  [local, remote] = await Promise.all([startApiServer(), startApiServer()]);
  local.review = remote.review = () => goodReview("default:example-pod-sa");
});

afterEach(async () => {
  await Promise.all([local.close(), remote.close()]);
});

function reviewing(
  server: FakeApiServer,
  cluster: string,
  aliases: readonly string[],
): TokenIssuer {
  const api = clusterApiAt(server, cluster);
  const ask = TokenReview.create(["istio-ca"], { verified: api, unverified: api });
  return tokenIssuer(issuerOf(cluster), [key], {
    cluster,
    clusterAliases: aliases,
    namespaces: ["default", "foo"],
    review: { order: "instead-of-keys", ask },
  });
}

function authenticator() {
  return createTokenAuthenticator(trustDomain, [
    reviewing(local, "Kubernetes", ["primary"]),
    reviewing(remote, "remote-1", ["west"]),
  ]);
}

const tokenOf = (cluster: string, account = "default:example-pod-sa", at = now) =>
  mintAccountToken(key, issuerOf(cluster), account, at);

function headersOf(token: string, clusterId?: string): Headers {
  return new Headers({
    authorization: `Bearer ${token}`,
    ...(clusterId !== undefined && { clusterid: clusterId }),
  });
}

async function authenticate(cluster = "Kubernetes", clusterId?: string) {
  return authenticator()({ headers: headersOf(await tokenOf(cluster), clusterId) }, now);
}

const rejected = (check: string): Refusal => ({ reason: "credential-rejected", check }) as Refusal;
const unreachable: Refusal = { reason: "cluster-unreachable", cluster: "Kubernetes" };

describe("a reviewed token, as in kube_jwt_test.go of Istio,", () => {
  test.each([
    ["the local cluster", "Kubernetes", "Kubernetes"],
    ["an alias of a remote cluster", "remote-1", "west"],
  ])("names its caller in %s", async (_, cluster, clusterId) => {
    expect(await authenticate(cluster, clusterId)).toEqual({
      spiffeId: "spiffe://example.com/ns/default/sa/example-pod-sa",
      account: { namespace: "default", name: "example-pod-sa" },
      issuer: expect.objectContaining({ name: issuerOf(cluster), cluster }),
      pod: { name: "example-pod-sa-0", uid: "2d5b7f6a-0f0e-4bb5-8a3f-6a0f2f3c4d21" },
      node: { name: "node-1", uid: "55d4cb0f-6a8a-4b6e-a0a6-0d3a5f6a8a11" },
      tokenId: expect.any(String),
      proof: {
        provedAt: wholeSeconds(now),
        issuer: IdentityProof.issuerDigest(issuerOf(cluster)),
        isImpersonated: false,
      },
    });
  });

  test("is sent with the audiences, under Rampart's own credential, and to its cluster alone", async () => {
    await authenticate();
    expect(remote.asked).toEqual([]);
    expect(local.asked).toHaveLength(1);
    const [asked] = local.asked;
    expect(asked).toMatchObject({
      method: "POST",
      url: "/apis/authentication.k8s.io/v1/tokenreviews",
      authorization: `Bearer ${apiCredential}`,
    });
    expect(JSON.parse(asked?.body ?? "")).toEqual({
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenReview",
      spec: { token: expect.stringContaining("."), audiences: ["istio-ca"] },
    });
  });

  test("without extras is bound to what it says itself, so that a denial finds it", async () => {
    local.review = () => {
      const { user, ...others } = goodReview("default:example-pod-sa");
      return { ...others, user: { ...user, extra: undefined } };
    };
    const bound = await authenticate();
    expect(bound).toMatchObject({ pod: { name: "example-pod-sa-0" }, node: { name: "node-1" } });
  });
});

describe("a token is refused that", () => {
  const user = goodReview("default:example-pod-sa").user;
  const good = goodReview("default:example-pod-sa");
  const extra = (name: string, ...values: string[]) => ({
    ...good,
    user: { ...user, extra: { ...user.extra, [`authentication.kubernetes.io/${name}`]: values } },
  });

  test.each<[string, unknown, string]>([
    ["is not authenticated", { user: {} }, "review"],
    ["is not authenticated, in so many words", { ...good, authenticated: false }, "review"],
    ["is authenticated with an error", { ...good, error: "token expired" }, "review"],
    ["has no audience confirmed", { ...good, audiences: undefined }, "audience"],
    ["has another audience confirmed", { ...good, audiences: ["vault"] }, "audience"],
    ["has an empty list of audiences confirmed", { ...good, audiences: [] }, "audience"],
    [
      "is only in the group of its namespace",
      { ...good, user: { ...user, groups: ["system:serviceaccounts:default"] } },
      "subject",
    ],
    ["is in no group", { ...good, user: { ...user, groups: undefined } }, "subject"],
    ["is a person's", { ...good, user: { ...user, username: "jane" } }, "subject"],
    ["is somebody else's", goodReview("default:other"), "subject"],
    ["is of another namespace", goodReview("foo:example-pod-sa"), "subject"],
    ["is bound to another pod", extra("pod-name", "other-0"), "subject"],
    ["is bound to another pod of the same name", extra("pod-uid", "other"), "subject"],
    ["is bound to two pods", extra("pod-name", "example-pod-sa-0", "other-0"), "subject"],
    ["is bound to half a pod", extra("pod-uid"), "subject"],
    ["is bound to a pod without a name", extra("pod-name"), "subject"],
    ["is bound to another node", extra("node-name", "node-2"), "subject"],
  ])("%s", async (_, status, check) => {
    local.review = () => status;
    expect(await refusalOf(() => authenticate())).toEqual(rejected(check));
  });

  test("is of an issuer nobody knows, and no API server sees it", async () => {
    expect(await refusalOf(() => authenticate("unknown"))).toEqual(rejected("issuer"));
    expect([...local.asked, ...remote.asked]).toEqual([]);
  });

  test.each<[string, () => void, unknown]>([
    ["refuses it", () => (local.review = () => ({ user: {} })), rejected("review")],
    ["is away", () => void local.close(), unreachable],
  ])(
    "is forged learns nothing of namespaces and clusters where the API server %s",
    async (_, set, refusal) => {
      set();
      for (const [account, clusterId] of [
        ["default:a", "primary"],
        ["default:a", "remote-1"],
        ["nowhere:a", "primary"],
      ] as const) {
        const headers = headersOf(await tokenOf("Kubernetes", account), clusterId);
        expect(await refusalOf(() => authenticator()({ headers }, now))).toEqual(refusal);
      }
    },
  );

  test("has expired by its own claims, and no API server sees it", async () => {
    const claims = { exp: now.getTime() / 1000 };
    const token = await mintAccountToken(key, issuerOf("Kubernetes"), "default:a", now, claims);
    const refusal = await refusalOf(() => authenticator()({ headers: headersOf(token) }, now));
    expect(refusal).toEqual(rejected("time"));
    expect(local.asked).toEqual([]);
  });

  test("is of a namespace that its cluster may not vouch for", async () => {
    const headers = headersOf(await tokenOf("Kubernetes", "bar:web"));
    local.review = () => goodReview("bar:web");
    expect(await refusalOf(() => authenticator()({ headers }, now))).toEqual(rejected("namespace"));
  });
});
