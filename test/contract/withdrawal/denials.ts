import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { foundIfEmpty } from "../../../src/ca/rotation/rotate.ts";
import type { DenialContent } from "../../../src/custody/record-kinds.ts";
import { Statement } from "../../../src/custody/statement.ts";
import type { CryptoProvider } from "../../../src/pki/crypto-provider.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import type { CertificateAuthority } from "../../../src/transport/certificate-authority.ts";
import { createTokenKey, jwksOf, type TokenKey } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import {
  type Asked,
  ask as askCa,
  begin,
  composeOn,
  refusalIn,
  type SignerStores,
} from "./asked-ca.ts";

/**
 * The promises of denials: whom an operator denies certificates gets none, and nobody else is refused.
 * `describeDeniedProducts` shows it for every way to ask.
 *
 * @param createStores Makes empty stores.
 */
export function describeDenials(
  createStores: () => Promise<SignerStores>,
  cryptoProvider: CryptoProvider,
): void {
  let stores: SignerStores;
  let key: TokenKey;
  let csrPem: string;
  let ca: CertificateAuthority;

  const composed = (values: object = {}) => {
    const table = { cluster: "a", jwks: jwksOf(key) };
    // Denials of the configuration and of the store apply together.
    return composeOn(stores, cryptoProvider, table, { DENIED: ["ns/any/sa/body"], ...values });
  };
  const restart = async (values: object = {}) => {
    ca = (await composed(values)).certificateAuthority;
  };

  const ask = (asked: Asked) => askCa(ca, { key, csrPem }, asked);
  const refusal = (asked: Asked = {}) => refusalIn(ask(asked));
  const deny = async (subject: string, others: Partial<DenialContent> = {}) => {
    const { mint } = await composed();
    const denial = { subject, knownFrom: begin, ...others };
    const sealed = await Statement.seal("denial", denial, mint);
    await stores.own.put(sealed);
    return sealed;
  };
  const denied = (subject: string) => ({ reason: "denied", subject });

  beforeAll(async () => {
    key = await createTokenKey("ES256", "k1");
    ({ csrPem } = await createWorkload());
  });

  beforeEach(async () => {
    stores = await createStores();
    const { mint, signerMints } = await composed();
    for (const each of [mint, ...signerMints.values()]) await foundIfEmpty(each, begin);
    await restart();
  });

  describe("a denial of an identity", () => {
    test.each(["spiffe://cluster.local/ns/shop/sa/cart", "ns/sh*/sa/*t", "cluster/a"])(
      "%s refuses its token and its certificate",
      async (subject) => {
        const leaf = await ask({});
        expect(await refusal({ leaf })).toBeUndefined();
        await deny(subject);
        expect(await refusal()).toEqual(denied(subject));
        expect(await refusal({ leaf })).toEqual(denied(subject));
      },
    );

    test.each(["ns/sho/sa/cart", "ns/*/sa/car", "cluster/b"])(
      "%s refuses no other",
      async (subject) => {
        const leaf = await ask({});
        await deny(subject);
        expect(await refusal()).toBeUndefined();
        expect(await refusal({ leaf })).toBeUndefined();
      },
    );
  });

  test("a denial of what only a token shows refuses certificates whose token is older, and no younger one", async () => {
    const claims = (uid: string) => ({
      "kubernetes.io": {
        namespace: "shop",
        pod: { name: "cart-0", uid },
        serviceaccount: { name: "cart", uid: "9a8b7c6d-5e4f-4a3b-8c2d-1e0f9a8b7c6d" },
      },
    });
    const leaf = await ask({ claims: claims("uid-1") });
    const knownFrom = addSeconds(begin, 120);
    await deny("pod/uid-1", { knownFrom });
    const elsewhere = { claims: claims("uid-9") };
    const during = await ask({ ...elsewhere, now: knownFrom });
    const after = await ask({ ...elsewhere, now: addSeconds(knownFrom, 1) });
    const now = addSeconds(knownFrom, 60);
    expect(await refusal({ leaf, now })).toEqual(denied("pod/uid-1"));
    expect(await refusal({ leaf: during, now })).toEqual(denied("pod/uid-1"));
    expect(await refusal({ leaf: after, now })).toBeUndefined();
  });

  describe("a denial", () => {
    test("ends at its end", async () => {
      const until = addSeconds(begin, 60);
      await deny("ns/shop/sa/*", { until });
      expect(await refusal({ now: addSeconds(begin, 59) })).toEqual(denied("ns/shop/sa/*"));
      expect(await refusal({ now: until })).toBeUndefined();
    });

    test("ends when it is removed", async () => {
      const record = await deny("ns/shop/sa/*");
      expect(await refusal()).toEqual(denied("ns/shop/sa/*"));
      await stores.own.delete(record);
      expect(await refusal()).toBeUndefined();
    });

    test("counts in the configuration, whatever the store holds", async () => {
      const since = begin.toISOString();
      await restart({ DENIED: ["ns/shop/sa/cart", { subject: "node/node-8", since }] });
      expect(await refusal()).toEqual(denied("ns/shop/sa/cart"));
      expect(await refusal({ account: "shop:till" })).toBeUndefined();
    });

    test("has no effect and is reported, if somebody else wrote or renamed it", async () => {
      const record = await deny("ns/shop/sa/*");
      await stores.own.delete(record);
      const renamed = { ...record, id: "ab".repeat(32) };
      const forged = { ...record, value: record.value.replace("ns/shop", "ns/shoq") };
      for (const each of [renamed, forged]) {
        await stores.own.put(each);
        const { reasons } = await ca.issuance.authorities.at(begin);
        expect(reasons).toEqual([expect.stringMatching(/^the denial [0-9a-f]{64} does not open/)]);
        expect(await refusal()).toBeUndefined();
        await stores.own.delete(each);
      }
    });
  });
}
