import { X509Certificate } from "@peculiar/x509";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Refusal } from "../../../src/foundation/refusal.ts";

import { clusterLocal } from "../../testkit/ca/sealed-authorities.ts";
import {
  type Claims,
  createTokenKey,
  jwksOf,
  mintToken,
  serviceAccountClaims,
  type TokenKey,
} from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { apiCredentialName } from "../service-under-test.ts";
import type { ConfigurableService, RunningService } from "./configurable-service.ts";
import { onStage, type StagedService } from "./stage.ts";

const issuer = "https://cluster.test";
const proxy = "istio-system:ztunnel";

const denied = { code: "PermissionDenied", message: "caller may not request this identity" };
const tryAgain = {
  code: "Unavailable",
  message: "certificate authority is temporarily unavailable",
};

/** Changes of what Kubernetes binds into a token of the node proxy. */
type Binding = Readonly<Record<"pod" | "node", object | undefined>>;

/**
 * The contract of a node proxy with the CA, over the wire: the pods of its cluster, or its reach, decide which
 * identities it gets. Without either, the CA does not start.
 *
 * @param apiUrl The URL below which the platform has the API servers of `createReviewingApi`.
 */
export function describeNodeProxies(
  open: () => Promise<ConfigurableService>,
  apiUrl: () => string,
): void {
  let service: StagedService;
  let key: TokenKey;
  let csr: string;

  beforeAll(async () => {
    key = await createTokenKey("ES256", "k1");
    csr = (await createWorkload()).csrPem;
  });

  beforeEach(async () => {
    service = await onStage(open)();
    await service.addAuthority([-2, -1, 1, 2]);
  });

  const start = (table: object): Promise<RunningService> =>
    service.start({
      ISSUERS: [
        { issuer, jwks: jwksOf(key), trusted_node_accounts: ["istio-system/ztunnel"], ...table },
      ],
      [apiCredentialName]: "credential",
    });

  const kubernetes = (name: string) => ({
    kubernetes: { server: `${apiUrl()}/${name}`, credential: apiCredentialName },
  });

  async function ask(
    running: RunningService,
    identity: string,
    { account = proxy, ...binding }: Partial<Binding> & { readonly account?: string } = {},
    signer = "",
  ) {
    const claims = serviceAccountClaims(issuer, account, new Date());
    const bound = { ...(claims["kubernetes.io"] as Claims), ...binding };
    const token = await mintToken(key, { ...claims, "kubernetes.io": bound });
    const named = identity && `spiffe://${clusterLocal}/ns/${identity}`;
    const metadata = { ImpersonatedIdentity: named, CertSigner: signer };
    return running.call(csr, undefined, { authorization: `Bearer ${token}` }, metadata);
  }

  async function expectIssued(...asked: Parameters<typeof ask>): Promise<void> {
    const outcome = await ask(...asked);
    expect(outcome).toHaveProperty("certChain");
    const [leaf = ""] = "certChain" in outcome ? outcome.certChain : [];
    expect(new X509Certificate(leaf).getExtension("2.5.29.17")).toHaveProperty("names.items", [
      expect.objectContaining({ value: `spiffe://${clusterLocal}/ns/${asked[1]}` }),
    ]);
  }

  async function expectDenied(
    rule: Extract<Refusal, { reason: "impersonation-denied" }>["rule"],
    ...asked: Parameters<typeof ask>
  ) {
    const [running] = asked;
    running.takeAudits();
    expect(await ask(...asked)).toEqual(denied);
    expect(running.takeAudits()).toEqual([
      expect.objectContaining({ outcome: "refused", reason: "impersonation-denied", check: rule }),
    ]);
  }

  describe("where the cluster's API is asked, a node proxy", () => {
    test("gets the identity of a pod on its node", async () => {
      await expectIssued(await start(kubernetes("cluster")), "foo/sa/bar");
    });

    test.each<
      [
        string,
        string,
        Partial<Binding>,
        Extract<Refusal, { reason: "impersonation-denied" }>["rule"],
      ]
    >([
      ["of a pod on another node", "foo/sa/elsewhere", {}, "instance"],
      ["of a pod that has ended", "foo/sa/ended", {}, "instance"],
      ["of no pod", "foo/sa/nobody", {}, "instance"],
      ["of that account in another namespace", "pay/sa/bar", {}, "instance"],
      ["with a token of no pod", "foo/sa/bar", { pod: undefined }, "pod"],
      ["with a token of a deleted pod", "foo/sa/bar", { pod: { name: "gone", uid: "1" } }, "pod"],
      [
        "with a token of a pod that was replaced",
        "foo/sa/bar",
        { pod: { name: "ztunnel-0", uid: "older" } },
        "pod-uid",
      ],
      ["with a token of another node", "foo/sa/bar", { node: { name: "node-2" } }, "node"],
    ])("is denied the identity %s", async (_, identity, binding, rule) => {
      await expectDenied(rule, await start(kubernetes("cluster")), identity, binding);
    });

    test("is denied beyond its node, whatever node_reach says", async () => {
      const table = { ...kubernetes("cluster"), node_reach: "anywhere" };
      await expectDenied("instance", await start(table), "foo/sa/elsewhere");
    });

    test.each(["away", "busy"])("gets nothing while the API server is %s", async (name) => {
      const running = await start({ ...kubernetes(name), node_reach: "anywhere" });
      expect(await ask(running, "foo/sa/bar")).toEqual(tryAgain);
    });
  });

  describe("where a token's claims decide, a node proxy", () => {
    const reach = { node_reach: [{ nodes: ["node-1"], namespaces: ["foo", "ml-*"] }] };

    test.each(["foo/sa/bar", "ml-a/sa/any"])("gets %s within its reach", async (identity) => {
      await expectIssued(await start(reach), identity);
    });

    test("gets every identity with node_reach anywhere", async () => {
      await expectIssued(await start({ node_reach: "anywhere" }), "pay/sa/any");
    });

    test.each<
      [
        string,
        string,
        Partial<Binding>,
        Extract<Refusal, { reason: "impersonation-denied" }>["rule"],
      ]
    >([
      ["in another namespace", "pay/sa/any", {}, "reach"],
      ["from another node", "foo/sa/bar", { node: { name: "node-2", uid: "2" } }, "reach"],
      ["from no node", "foo/sa/bar", { node: undefined }, "node"],
      ["from a node that did not exist", "foo/sa/bar", { node: { name: "node-1" } }, "node"],
      ["with a token of no pod", "foo/sa/bar", { pod: undefined }, "pod"],
    ])("is denied an identity %s", async (_, identity, binding, rule) => {
      await expectDenied(rule, await start(reach), identity, binding);
    });

    test("is asked for nothing of the API, by the word claims", async () => {
      const table = { ...kubernetes("away"), node_checks: "claims", ...reach };
      await expectIssued(await start(table), "foo/sa/bar");
    });
  });

  test("a node proxy gets no intermediate for a workload, even if it may have one of its own", async () => {
    const intermediates = [{ account: "istio-system/ztunnel", trust_domain: "below.test" }];
    const running = await start({ node_reach: "anywhere", intermediates });
    expect(await ask(running, "", {}, "intermediate")).toHaveProperty("certChain");
    running.takeAudits();
    expect(await ask(running, "foo/sa/bar", {}, "intermediate")).toHaveProperty(
      "code",
      "PermissionDenied",
    );
    expect(running.takeAudits()).toEqual([
      expect.objectContaining({ outcome: "refused", reason: "signer-denied" }),
    ]);
  });

  test("an account that is no node proxy gets no other identity", async () => {
    const running = await start({ node_reach: "anywhere" });
    await expectDenied("account", running, "foo/sa/bar", { account: "foo:other" });
  });

  test.each<[string, () => object]>([
    ["without access to the API", () => ({})],
    ["with claims beside the API", () => ({ ...kubernetes("cluster"), node_checks: "claims" })],
    ["with api and no access", () => ({ node_checks: "api", node_reach: "anywhere" })],
    ["with an empty reach", () => ({ node_reach: [] })],
  ])(
    "a CA does not start with node proxies %s, unless it says how far they reach",
    async (_, table) => {
      const outcome = start(table()).then((running) => ask(running, "foo/sa/bar"));
      // Node refuses to start. A Worker cannot, and answers nobody.
      const told = await outcome.catch((error) => ({
        code: "Unavailable",
        message: String(error),
      }));
      expect(told).toEqual({
        code: "Unavailable",
        message: expect.stringMatching(
          /ISSUERS\[0\]\.node_|^certificate authority is not configured$/,
        ),
      });
    },
  );
}
