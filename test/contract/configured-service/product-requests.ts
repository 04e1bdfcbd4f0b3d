import type { JsonObject } from "@bufbuild/protobuf";
import { beforeAll, beforeEach } from "vitest";
import { forwardedHeader, forwardedValue } from "../../../src/authn/forwarding-headers.ts";
import type { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { IdentityProof } from "../../../src/pki/x509/leaf/identity-proof.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import type { AuditLine } from "../../testkit/log/event-recorder.ts";
import { type HeldLeaf, leafUnder } from "../../testkit/pki/held-leaf.ts";
import type { ProductName } from "../withdrawal/denied-products.ts";
import type { ConfigurableService, RunningService } from "./configurable-service.ts";
import { onStage, type StagedService } from "./stage.ts";

export const issuer = "https://a.test";
export const cart = "spiffe://cluster.local/ns/shop/sa/cart";

/** Who asks, as its token shows it. */
export interface Asker {
  readonly account: string;
  readonly pod: string;
  readonly node: string;
  readonly token: string;
}

/** The victim of every denial but those of askers. */
export const holder: Asker = {
  account: "shop/cart",
  pod: "cart-uid",
  node: "node-7",
  token: "jti-7",
};
export const proxy: Asker = {
  account: "istio-system/ztunnel",
  pod: "proxy-uid",
  node: "node-7",
  token: "proxy-jti",
};
export const signer: Asker = {
  account: "istio-system/signer",
  pod: "signer-uid",
  node: "node-1",
  token: "signer-jti",
};
export const gateway: Asker = {
  account: "edge/gateway",
  pod: "gateway-uid",
  node: "node-2",
  token: "gateway-jti",
};

const podNames = { PodName: "cart-0", PodUid: holder.pod, NodeName: holder.node };
export const forPod = { ImpersonatedIdentity: cart, ...podNames };
export const forService = {
  CertSigner: "serving",
  DnsNames: ["cart.shop.svc"],
  Requester: holder.account,
  ...podNames,
  TokenId: holder.token,
};

/** A request for a product: whose token, which leaf or forwarded client, and the metadata. */
export interface Asked {
  readonly by?: Asker;
  readonly leaf?: HeldLeaf;
  readonly forwarded?: string;
  readonly metadata?: JsonObject;
}

/** Who stands between the holder of a product and the CA. */
export const askers: Partial<Readonly<Record<ProductName, Asker>>> = {
  forwarded: gateway,
  identity: { ...gateway, account: "edge/envoy" },
  ztunnel: proxy,
  pod: signer,
  service: signer,
};

/** A CA on a platform that has a way to ask for each product. Register its hooks in a `describe`. */
export function productRequests(open: () => Promise<ConfigurableService>) {
  let service: StagedService;
  let running: RunningService;
  let authority: NewAuthority;
  let key: TokenKey;
  let csr: string;
  let values: Readonly<Record<string, unknown>>;
  let table: Readonly<Record<string, unknown>>;

  beforeAll(async () => {
    key = await createTokenKey("ES256", "k1");
    csr = (await createWorkload()).csrPem;
  });

  beforeEach(async () => {
    service = await onStage(open)();
    authority = await service.addAuthority([-2, -1, 10, 20]);
    table = {
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
    values = {
      ISSUERS: [table],
      SIGNERS: [{ name: "team-a", callers }],
      PROPAGATION_INTERVAL: "0s",
    };
  });

  /** Starts the CA anew with these keys beside its own. @param isAlone Without the tenant beside. */
  async function start(
    changes: Readonly<Record<string, unknown>> = {},
    isAlone = false,
  ): Promise<void> {
    const opened = isAlone ? service.startAlone : service.start;
    running = await opened({ ...values, ...changes });
  }

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
      issuer: IdentityProof.issuerDigest(issuer),
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

  return {
    start,
    ask,
    leafOf,
    requests,
    service: () => service,
    authority: () => authority,
    key: () => key,
    table: () => table,
  };
}
