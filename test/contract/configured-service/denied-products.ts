import type { JsonObject } from "@bufbuild/protobuf";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { forwardedHeader, forwardedValue } from "../../../src/authn/forwarded-certificate.ts";
import { sealAuthority } from "../../../src/custody/authority-record.ts";
import { sealStatement } from "../../../src/custody/statement.ts";
import { createAuthority, type NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { issuerDigest } from "../../../src/pki/x509/leaf/identity-proof.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { clusterLocal, scheduleAfter } from "../../testkit/ca/sealed-authorities.ts";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import type { AuditLine } from "../../testkit/log/event-recorder.ts";
import { type HeldLeaf, leafUnder, leafWithoutProof } from "../../testkit/pki/held-leaf.ts";
import {
  type DeniedProduct,
  type ProductName,
  products,
  type Victim,
  victims,
} from "../withdrawal/denied-products.ts";
import type { ConfigurableService, RunningService } from "./configurable-service.ts";

const issuer = "https://a.test";
const cart = "spiffe://cluster.local/ns/shop/sa/cart";

/** Who asks, as its token shows it. */
interface Asker {
  readonly account: string;
  readonly pod: string;
  readonly node: string;
  readonly token: string;
}

/** The victim of every denial but those of askers. */
const holder: Asker = { account: "shop/cart", pod: "cart-uid", node: "node-7", token: "jti-7" };
const proxy: Asker = {
  ...{ account: "istio-system/ztunnel", pod: "proxy-uid" },
  ...{ node: "node-7", token: "proxy-jti" },
};
const signer: Asker = {
  ...{ account: "istio-system/signer", pod: "signer-uid" },
  ...{ node: "node-1", token: "signer-jti" },
};
const gateway: Asker = {
  ...{ account: "edge/gateway", pod: "gateway-uid" },
  ...{ node: "node-2", token: "gateway-jti" },
};

const podNames = { PodName: "cart-0", PodUid: holder.pod, NodeName: holder.node };
const forPod = { ImpersonatedIdentity: cart, ...podNames };
const forService = {
  ...{ CertSigner: "serving", DnsNames: ["cart.shop.svc"] },
  ...{ Requester: holder.account, ...podNames, TokenId: holder.token },
};

/** A request for a product: whose token, which leaf or forwarded client, and the metadata. */
interface Asked {
  readonly by?: Asker;
  readonly leaf?: HeldLeaf;
  readonly forwarded?: string;
  readonly metadata?: JsonObject;
}

const subjects: Readonly<Record<Victim, (whom: Asker) => string>> = {
  "SPIFFE ID": ({ account }) => `spiffe://cluster.local/ns/${account.replace("/", "/sa/")}`,
  "namespace and account": ({ account }) => `ns/${account.replace("/", "/sa/")}`,
  cluster: () => "cluster/alpha",
  issuer: () => `issuer/${issuer}`,
  node: ({ node }) => `node/${node}`,
  pod: ({ pod }) => `pod/${pod}`,
  token: ({ token }) => `token/${token}`,
};

/** Subjects that are nobody's. */
const others: Readonly<Record<Victim, string>> = {
  "SPIFFE ID": "spiffe://cluster.local/ns/shop/sa/till",
  "namespace and account": "ns/shop/sa/till",
  cluster: "cluster/beta",
  issuer: "issuer/https://b.test",
  node: "node/node-8",
  pod: "pod/till-uid",
  token: "token/jti-8",
};

/**
 * The contract of denials with every product of the CA, over the wire: whom a denial names gets none, however the
 * certificate is asked for, and nobody else is refused.
 */
export function describeDeniedProducts(open: () => Promise<ConfigurableService>): void {
  let service: ConfigurableService;
  let running: RunningService;
  let authority: NewAuthority;
  let key: TokenKey;
  let csr: string;

  beforeAll(async () => {
    key = await createTokenKey("ES256", "k1");
    csr = (await createWorkload()).csrPem;
  });

  beforeEach(async () => {
    service = await open();
    const schedule = scheduleAfter(new Date(), [-7200, -3600, 36_000, 72_000]);
    authority = await createAuthority(clusterLocal, "EC-P256", schedule);
    await service.store.put(await sealAuthority(authority, clusterLocal, service.keks));
    const table = {
      issuer,
      cluster: "alpha",
      jwks: jwksOf(key),
      trusted_node_accounts: [proxy.account],
      node_reach: "anywhere",
      gateways: [
        { account: gateway.account, dns_names: ["a.test"] },
        { account: "edge/envoy", dns_names: ["b.test"], forwards: "identities" },
        { account: holder.account, dns_names: ["cart.test"] },
      ],
      cluster_signers: [{ account: signer.account, namespaces: ["*"], dns_names: ["*.shop.svc"] }],
      intermediates: [{ account: holder.account, trust_domain: "below.test" }],
    };
    const callers = [{ issuer, namespaces: ["*"], accounts: ["*"] }];
    running = await service.start({
      ISSUERS: [table],
      SIGNERS: [{ name: "team-a", callers }],
      PROPAGATION_INTERVAL: "0s",
    });
  });

  /** The audit event of a request. */
  async function ask({ by, leaf, forwarded, metadata }: Asked): Promise<AuditLine | undefined> {
    const headers = {
      ...(by && { authorization: `Bearer ${await tokenOf(by)}` }),
      ...(forwarded !== undefined && { [forwardedHeader]: forwarded }),
    };
    running.takeAudits();
    await running.call(csr, leaf, headers, metadata);
    return running.takeAudits()[0];
  }

  function tokenOf({ account, pod, node, token }: Asker): Promise<string> {
    const [namespace = "", name = ""] = account.split("/");
    return mintAccountToken(key, issuer, `${namespace}:${name}`, new Date(), {
      jti: token,
      "kubernetes.io": {
        namespace,
        node: { name: node, uid: "55d4cb0f-6a8a-4b6e-a0a6-0d3a5f6a8a11" },
        pod: { name: `${name}-0`, uid: pod },
        serviceaccount: { name, uid: "9a8b7c6d-5e4f-4a3b-8c2d-1e0f9a8b7c6d" },
      },
    });
  }

  /** A leaf of the victim whose last token is so many seconds ago. */
  const leafOf = (secondsAgo = 600, isImpersonated = false): Promise<HeldLeaf> =>
    leafUnder(authority, cart, {
      provedAt: addSeconds(wholeSeconds(new Date()), -secondsAgo),
      issuer: issuerDigest(issuer),
      isImpersonated,
    });

  const requests: Readonly<Record<ProductName, (secondsAgo?: number) => Promise<Asked>>> = {
    token: async () => ({ by: holder }),
    signer: async () => ({ by: holder, metadata: { CertSigner: "team-a" } }),
    certificate: async (secondsAgo) => ({ leaf: await leafOf(secondsAgo) }),
    forwarded: async (secondsAgo) => {
      const { chainPem } = await leafOf(secondsAgo);
      return { by: gateway, forwarded: forwardedValue(chainPem, cart) };
    },
    identity: async () => ({
      by: { ...gateway, account: "edge/envoy" },
      forwarded: `URI=${cart}`,
    }),
    ztunnel: async () => ({ by: proxy, metadata: { ImpersonatedIdentity: cart } }),
    pod: async () => ({ by: signer, metadata: forPod }),
    service: async () => ({ by: signer, metadata: forService }),
    gateway: async () => ({ by: holder, metadata: { CertSigner: "serving" } }),
    intermediate: async () => ({ by: holder, metadata: { CertSigner: "intermediate" } }),
  };

  /** Who stands between the victim and the CA. */
  const askers: Partial<Readonly<Record<ProductName, Asker>>> = {
    forwarded: gateway,
    identity: { ...gateway, account: "edge/envoy" },
    ztunnel: proxy,
    pod: signer,
    service: signer,
  };

  /** Whether a request is refused by a denial while that stands. */
  async function isDenied(subject: string, asked: Asked, secondsAgo = 60): Promise<boolean> {
    const knownFrom = addSeconds(wholeSeconds(new Date()), -secondsAgo);
    const sealed = await sealStatement(
      "denial",
      { subject, knownFrom, until: undefined, why: undefined },
      clusterLocal,
      service.keks,
    );
    await service.store.put(sealed);
    const { reason, check } = (await ask(asked)) ?? {};
    await service.store.delete(sealed);
    if (reason === "denied") expect(check).toBe(subject);
    return reason === "denied";
  }

  async function effectOf(product: ProductName, victim: Victim): Promise<string> {
    const asked = await requests[product]();
    const isVictimDenied = await isDenied(subjects[victim](holder), asked);
    const isOtherDenied = await isDenied(others[victim], asked);
    if (!isOtherDenied) return isVictimDenied ? "denied" : "unknown";
    if (!isVictimDenied) return "another is denied";
    return (await isDenied(others[victim], await requests[product](30))) ? "nobody" : "younger";
  }

  test.each(Object.keys(products) as ProductName[])(
    "what a denial of its holder does to the product %s",
    async (product) => {
      const { reason, outcome } = (await ask(await requests[product]())) ?? {};
      // The first authority of a signer by name is published before it signs.
      expect(reason ?? outcome).toBe(product === "signer" ? "no-signing-authority" : "issued");
      const effects: Record<string, string> = {};
      for (const victim of victims) effects[victim] = await effectOf(product, victim);
      expect(effects).toEqual((products[product] as DeniedProduct).effects);
    },
  );

  test.each(Object.keys(askers) as ProductName[])(
    "a denial of who asks for the product %s",
    async (product) => {
      const asked = await requests[product](30);
      for (const victim of victims) {
        const subject = subjects[victim](askers[product] ?? holder);
        expect([subject, await isDenied(subject, asked)]).toEqual([subject, true]);
      }
    },
  );

  describe("the names that a signer of a cluster gives", () => {
    test.each<[string, Asker]>([
      ["a workload", holder],
      ["a node proxy", proxy],
    ])("count for nothing from %s", async (_, by) => {
      const metadata = { ...forPod, NodeName: "node-9", PodUid: "another-uid" };
      const asked =
        by === holder
          ? { by, metadata: { ...metadata, ImpersonatedIdentity: "" } }
          : { by, metadata };
      expect(await ask(asked)).toMatchObject({ outcome: "issued" });
      expect(await isDenied("node/node-9", asked)).toBe(false);
      expect(await isDenied(subjects.node(by), asked)).toBe(true);
    });

    test.each<[string, JsonObject, boolean]>([
      ["a pod", { ImpersonatedIdentity: cart, PodUid: holder.pod }, false],
      ["a service", { CertSigner: "serving", DnsNames: ["cart.shop.svc"] }, true],
    ])("are missed as soon as a denial asks who gets %s", async (_, metadata, isAccountUnknown) => {
      const asked = { by: signer, metadata };
      expect(await ask(asked)).toMatchObject({ outcome: "issued" });
      for (const victim of ["node", "pod", "token"] as const) {
        expect(await isDenied(others[victim], asked)).toBe(true);
      }
      expect(await isDenied("ns/shop/sa/till", asked)).toBe(isAccountUnknown);
      expect(await isDenied("cluster/beta", asked)).toBe(false);
    });

    test("are for the signer's own account as for any other", async () => {
      const own = "spiffe://cluster.local/ns/istio-system/sa/signer";
      const asked = { by: signer, metadata: { ...forPod, ImpersonatedIdentity: own } };
      expect(await isDenied("node/node-7", asked)).toBe(true);
    });

    test.each<[string, JsonObject]>([
      ["node", { ...forPod, NodeName: "Node 7" }],
      ["pod", { ...forPod, PodUid: "x".repeat(65) }],
      ["list", { ...forPod, PodName: ["cart-0"] }],
      ["account", { ...forService, Requester: "shop" }],
      ["token", { ...forService, TokenId: "a b" }],
    ])("must be well formed: a %s", async (_, metadata) => {
      expect(await ask({ by: signer, metadata })).toMatchObject({
        outcome: "refused",
        reason: "csr-malformed",
      });
    });
  });

  test("a denial of any issuer that may stand behind a certificate without a proof", async () => {
    const shop = { jwks: jwksOf(key), namespaces: ["shop"] };
    running = await service.start({
      ISSUERS: [
        { ...shop, issuer, cluster: "alpha" },
        { ...shop, issuer: "https://b.test", cluster: "beta" },
      ],
      PROPAGATION_INTERVAL: "0s",
    });
    const asked = { leaf: await leafWithoutProof(authority, cart) };
    expect(await ask(asked)).toMatchObject({ outcome: "issued" });
    for (const subject of ["cluster/alpha", "cluster/beta", "issuer/https://b.test"]) {
      expect([subject, await isDenied(subject, asked)]).toEqual([subject, true]);
    }
    expect(await isDenied("cluster/gamma", asked)).toBe(false);
  });

  test("who holds what a signer asked for gets no other with it, with or without a denial", async () => {
    const leaf = await leafOf(30, true);
    const forwarded = forwardedValue(leaf.chainPem, cart);
    for (const asked of [{ leaf }, { by: gateway, forwarded }]) {
      expect(await ask(asked)).toMatchObject({ reason: "credential-rejected" });
      expect(await isDenied("node/node-7", asked)).toBe(false);
    }
  });
}
