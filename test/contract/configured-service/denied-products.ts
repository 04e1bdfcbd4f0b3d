import type { JsonObject } from "@bufbuild/protobuf";
import { beforeEach, describe, expect, test } from "vitest";
import { forwardedValue } from "../../../src/authn/forwarding-headers.ts";
import { Statement } from "../../../src/custody/statement.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { jwksOf } from "../../testkit/callers/tokens.ts";
import { leafWithoutProof } from "../../testkit/pki/held-leaf.ts";
import {
  type DeniedProduct,
  type ProductName,
  products,
  type Victim,
  victims,
} from "../withdrawal/denied-products.ts";
import type { ConfigurableService } from "./configurable-service.ts";
import {
  type Asked,
  type Asker,
  askers,
  cart,
  forPod,
  forService,
  gateway,
  holder,
  issuer,
  productRequests,
  proxy,
  signer,
} from "./product-requests.ts";

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

/** A CA on a platform that is asked for products while a denial stands. Register its hooks in a `describe`. */
function denials(open: () => Promise<ConfigurableService>) {
  const asking = productRequests(open);
  const { start, ask, requests, service } = asking;

  beforeEach(() => start());

  /** Whether a request is refused by a denial while that stands. */
  async function isDenied(subject: string, asked: Asked, secondsAgo = 60): Promise<boolean> {
    const knownFrom = addSeconds(wholeSeconds(new Date()), -secondsAgo);
    const sealed = await Statement.seal(
      "denial",
      { subject, knownFrom, until: undefined, why: undefined },
      service(),
    );
    await service().store.put(sealed);
    const { reason, check } = (await ask(asked)) ?? {};
    await service().store.delete(sealed);
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

  return { ...asking, isDenied, effectOf };
}

/**
 * The contract of denials with products of the CA, over the wire: whom a denial names gets none, however the
 * certificate is asked for, and nobody else is refused.
 *
 * @param names The products, by default all: a platform shows how it hands on what a caller proves itself with.
 */
export function describeDeniedProducts(
  open: () => Promise<ConfigurableService>,
  names: readonly ProductName[] = Object.keys(products) as ProductName[],
): void {
  const { start, ask, leafOf, requests, authority, key, isDenied, effectOf } = denials(open);

  test.each(names)("what a denial of its holder does to the product %s", async (product) => {
    const { reason, outcome } = (await ask(await requests[product]())) ?? {};
    // The first authority of a signer by name is published before it signs.
    expect(reason ?? outcome).toBe(product === "signer" ? "no-signing-authority" : "issued");
    const effects: Record<string, string> = {};
    for (const victim of victims) effects[victim] = await effectOf(product, victim);
    expect(effects).toEqual((products[product] as DeniedProduct).effects);
  });

  test.each(names.filter((name) => name in askers))(
    "a denial of who asks for the product %s",
    async (product) => {
      const asked = await requests[product](30);
      for (const victim of victims) {
        const subject = subjects[victim](askers[product] ?? holder);
        expect([subject, await isDenied(subject, asked)]).toEqual([subject, true]);
      }
    },
  );

  test("a denial of any issuer that may stand behind a certificate without a proof", async () => {
    const shop = { jwks: jwksOf(key()), namespaces: ["shop"] };
    await start({
      ISSUERS: [
        { ...shop, issuer, cluster: "alpha" },
        { ...shop, issuer: "https://b.test", cluster: "beta" },
      ],
      SIGNERS: [],
    });
    const asked = { leaf: await leafWithoutProof(authority(), cart) };
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

/** The contract of denials with what a signer of a cluster says of those for whom it asks. */
export function describeNamedRequesters(open: () => Promise<ConfigurableService>): void {
  const { start, ask, table, isDenied } = denials(open);

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

    const byUid = { ImpersonatedIdentity: cart, PodUid: holder.pod };

    test.each<[string, JsonObject, boolean]>([
      ["a pod", byUid, false],
      ["a pod of an unnamed node", { ...byUid, PodName: "cart-0" }, false],
      [
        "a pod without a UID",
        { ImpersonatedIdentity: cart, PodName: "cart-0", NodeName: "n" },
        false,
      ],
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
      ["path", { ...forService, Requester: "shop/cart/x" }],
      ["token", { ...forService, TokenId: "a b" }],
    ])("must be well formed: a %s", async (_, metadata) => {
      expect(await ask({ by: signer, metadata })).toMatchObject({
        outcome: "refused",
        reason: "csr-malformed",
      });
    });
  });

  test("a signer of a cluster names nobody for whom its issuer may not vouch", async () => {
    await start({ ISSUERS: [{ ...table(), namespaces: ["shop", "istio-system"] }] });
    expect(await ask({ by: signer, metadata: forService })).toMatchObject({ outcome: "issued" });
    for (const named of [forPod, forService]) {
      const other = named === forPod ? { ImpersonatedIdentity: cart.replace("shop", "bank") } : {};
      const metadata = { ...named, ...other, Requester: "bank/cart" };
      expect(await ask({ by: signer, metadata })).toMatchObject({
        reason: "impersonation-denied",
        check: "namespace",
      });
    }
  });
}
