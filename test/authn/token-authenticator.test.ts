import { describe, expect, test } from "vitest";
import { callerWithin } from "../../src/authn/token-authenticator.ts";
import { TrustDomain } from "../../src/pki/spiffe-id.ts";
import { tokenIssuerWithoutKeys } from "../testkit/callers/token-issuers.ts";
import { refusalOf } from "../testkit/refusal.ts";

const issuer = tokenIssuerWithoutKeys("https://a.test", {
  cluster: "a",
  clusterAliases: ["west"],
  namespaces: ["team-*"],
});
const now = new Date("2026-11-21T12:00:00.250Z");
const trustDomain = TrustDomain.parse("cluster.local") as TrustDomain;
const bearerIn = (namespace: string) => ({
  account: { namespace, name: "web" },
  pod: { name: "web-0", uid: "1" },
  node: undefined,
});
const callerOf = (namespace: string, clusterId: string | null) =>
  callerWithin(issuer, bearerIn(namespace), clusterId, { trustDomain, now });
const rejected = (check: string) => ({ reason: "credential-rejected", check });

describe("the bearer of a proved token", () => {
  test.each([null, "", "a", "west"])(
    "is a caller of its cluster with the clusterid %j",
    (clusterId) => {
      expect(callerOf("team-a", clusterId)).toEqual({
        ...bearerIn("team-a"),
        spiffeId: "spiffe://cluster.local/ns/team-a/sa/web",
        issuer,
        proof: {
          provedAt: new Date("2026-11-21T12:00:00.000Z"),
          issuer: issuer.digest,
          isImpersonated: false,
        },
      });
    },
  );

  test.each(["other", "team", "xteam-a"])("is refused in the namespace %s", async (namespace) => {
    expect(await refusalOf(() => callerOf(namespace, "a"))).toEqual(rejected("namespace"));
  });

  test.each(["b", "A", "a,west", "a, a", " a", "Kubernetes"])(
    "is refused with the clusterid %j",
    async (id) => {
      expect(await refusalOf(() => callerOf("team-a", id))).toEqual(rejected("cluster"));
    },
  );
});
