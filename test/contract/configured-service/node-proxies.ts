import { X509Certificate } from "@peculiar/x509";
import { beforeAll, beforeEach, expect, test } from "vitest";
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

  test("where the cluster's API is asked, a node proxy gets the identities of the pods on its node", async () => {
    // Whatever node_reach says.
    const running = await start({ ...kubernetes("cluster"), node_reach: "anywhere" });
    await expectIssued(running, "foo/sa/bar");
    await expectDenied("instance", running, "foo/sa/elsewhere");
    await expectDenied("pod", running, "foo/sa/bar", { pod: { name: "gone", uid: "1" } });
    await expectDenied("node", running, "foo/sa/bar", { node: { name: "node-2" } });
  });

  test.each(["away", "busy"])(
    "a node proxy gets nothing while the API server is %s",
    async (name) => {
      const running = await start({ ...kubernetes(name), node_reach: "anywhere" });
      expect(await ask(running, "foo/sa/bar")).toEqual(tryAgain);
    },
  );

  const reach = { node_reach: [{ nodes: ["node-1"], namespaces: ["foo", "ml-*"] }] };

  test("where a token's claims decide, a node proxy gets what is within its reach", async () => {
    const running = await start(reach);
    for (const identity of ["foo/sa/bar", "ml-a/sa/any"]) await expectIssued(running, identity);
    await expectDenied("reach", running, "pay/sa/any");
    const elsewhere = { node: { name: "node-2", uid: "2" } };
    await expectDenied("reach", running, "foo/sa/bar", elsewhere);
    await expectIssued(await start({ node_reach: "anywhere" }), "pay/sa/any");
  });

  test("the API is asked for nothing by the word claims", async () => {
    const table = { ...kubernetes("away"), node_checks: "claims", ...reach };
    await expectIssued(await start(table), "foo/sa/bar");
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

  test("a CA does not start with node proxies unless it says how far they reach", async () => {
    const outcome = start({}).then((running) => ask(running, "foo/sa/bar"));
    // Node refuses to start. A Worker cannot, and answers nobody.
    const told = await outcome.catch((error) => ({ code: "Unavailable", message: String(error) }));
    expect(told).toEqual({
      code: "Unavailable",
      message: expect.stringMatching(
        /ISSUERS\[0\]\.node_|^certificate authority is not configured$/,
      ),
    });
  });
}
