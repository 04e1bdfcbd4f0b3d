import { beforeAll, beforeEach, expect, test } from "vitest";
import { forwardedValue } from "../../../src/authn/forwarding-headers.ts";
import { foundIfEmpty } from "../../../src/ca/rotation/rotate.ts";
import type { Composition } from "../../../src/config/composition.ts";
import type { RevocationContent } from "../../../src/custody/record-kinds.ts";
import { Statement } from "../../../src/custody/statement.ts";
import type { CryptoProvider } from "../../../src/pki/crypto-provider.ts";
import { Hex } from "../../../src/pki/encoding/bytes.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { Certificate } from "../../../src/pki/x509/certificate.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { CaRoutes } from "../../../src/transport/http/routes.ts";
import { createTokenKey, jwksOf, type TokenKey } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { crlBlocks, readCrl } from "../../testkit/pki/crls.ts";
import {
  type Asked,
  ask as askCa,
  begin,
  composeOn,
  refusalIn,
  type SignerStores,
} from "./asked-ca.ts";

/**
 * The promises of revocations: a revoked certificate is a credential no more, however it is shown, it is on
 * its authority's CRL, and nobody else notices.
 *
 * @param createStores Makes empty stores.
 */
export function describeRevocations(
  createStores: () => Promise<SignerStores>,
  cryptoProvider: CryptoProvider,
): void {
  let stores: SignerStores;
  let key: TokenKey;
  let csrPem: string;
  let composition: Composition;

  const composed = (values: object = {}) => {
    const gateways = [{ account: "edge/gateway", dns_names: ["a.test"] }];
    const table = { jwks: jwksOf(key), gateways };
    // Revocations of the configuration and of the store apply together.
    const [since, until] = [begin.toISOString(), addSeconds(begin, 3600).toISOString()];
    const REVOKED = [{ authority: "cd".repeat(20), serials: ["0a"], since, until }];
    return composeOn(stores, cryptoProvider, table, { CRL: "on", REVOKED, ...values });
  };
  const ask = (asked: Asked = {}) =>
    askCa(composition.certificateAuthority, { key, csrPem }, asked);
  const refusal = (asked: Asked) => refusalIn(ask(asked));

  async function named(leaf: string) {
    const certificate = Certificate.parse(Pem.parse(leaf, ["CERTIFICATE"]) ?? new Uint8Array());
    const { issuer: authority } =
      await composition.certificateAuthority.issuance.authorities.at(begin);
    return {
      authority: authority?.authority.id ?? "",
      serial: Hex.format(certificate.toBeSigned.serialNumber),
    };
  }

  async function revoke(leaf: string, others: Partial<RevocationContent> = {}) {
    const { mint } = composition;
    const { authority, serial } = await named(leaf);
    const content: RevocationContent = {
      authority,
      revokedAt: begin,
      knownFrom: begin,
      reason: "keyCompromise",
      certificates: new Map([[serial, addSeconds(begin, 24 * 3600).getTime() / 1000]]),
      ...others,
    };
    const sealed = await Statement.seal("revocation", content, mint);
    await stores.own.put(sealed);
    return sealed;
  }

  const revoked = { reason: "credential-rejected", check: "revoked" };
  const through = (leaf: string): Asked => ({
    account: "edge:gateway",
    forwarded: forwardedValue(leaf, "spiffe://cluster.local/ns/shop/sa/cart"),
  });

  async function crls() {
    const app = CaRoutes.create(composition.certificateAuthority);
    const response = await app.request("/crl.pem");
    return crlBlocks(await response.text()).map(readCrl);
  }

  beforeAll(async () => {
    key = await createTokenKey("ES256", "k1");
    ({ csrPem } = await createWorkload());
  });

  beforeEach(async () => {
    stores = await createStores();
    composition = await composed();
    const { mint, signerMints } = composition;
    for (const each of [mint, ...signerMints.values()]) await foundIfEmpty(each, begin);
  });

  test("a revoked certificate is a credential no more, by itself or through a gateway", async () => {
    const leaf = await ask();
    expect(await refusal({ leaf })).toBeUndefined();
    expect(await refusal(through(leaf))).toBeUndefined();
    await revoke(leaf);
    expect(await refusal({ leaf })).toEqual(revoked);
    expect(await refusal(through(leaf))).toEqual(revoked);
  });

  test("a gateway with a revoked certificate gets nothing for its clients", async () => {
    const leaf = await ask();
    const gateway = await ask({ account: "edge:gateway" });
    await revoke(gateway);
    const { forwarded = "" } = through(leaf);
    expect(await refusal({ leaf: gateway, forwarded })).toEqual(revoked);
  });

  test("its holder gets a new one by a token, and that is a credential", async () => {
    const leaf = await ask();
    await revoke(leaf);
    const next = await ask({ leaf, hasToken: true });
    expect(await refusal({ leaf: next })).toBeUndefined();
  });

  test.each<[string, Partial<RevocationContent>]>([
    ["another certificate", { certificates: new Map([["01ab", 1_800_000_000]]) }],
    ["the same number of another authority", { authority: "ab".repeat(20) }],
  ])("the revocation of %s changes nothing", async (_, others) => {
    const leaf = await ask();
    await revoke(leaf, others);
    expect(await refusal({ leaf })).toBeUndefined();
  });

  test("a revoked certificate is on the CRL of its authority, and on no other", async () => {
    const leaf = await ask();
    const { serial } = await named(leaf);
    expect((await crls()).map(({ entries }) => entries)).toEqual([[], []]);
    await revoke(leaf);
    const lists = (await crls()).map(({ entries }) => entries);
    expect(lists.toSorted((a, b) => a.length - b.length)).toEqual([[], [[serial, 1]]]);
  });

  test("counts in the configuration, whatever the store holds", async () => {
    const leaf = await ask();
    const { authority, serial } = await named(leaf);
    const until = "2026-11-22T13:00:00Z";
    const since = begin.toISOString();
    composition = await composed({ REVOKED: [{ authority, serials: [serial], since, until }] });
    expect(await refusal({ leaf })).toEqual(revoked);
    expect((await crls()).flatMap(({ entries }) => entries)).toEqual([[serial, undefined]]);
  });

  test("has no effect and is reported, if somebody else wrote or renamed it", async () => {
    const leaf = await ask();
    const record = await revoke(leaf);
    await stores.own.delete(record);
    const renamed = { ...record, id: "ab".repeat(32) };
    const forged = { ...record, value: record.value.replace("keyCompromise", "superseded") };
    for (const each of [renamed, forged]) {
      await stores.own.put(each);
      const { reasons } = await composition.certificateAuthority.issuance.authorities.at(begin);
      expect(reasons).toEqual([
        expect.stringMatching(/^the revocation [0-9a-f]{64} does not open/),
      ]);
      expect(await refusal({ leaf })).toBeUndefined();
      await stores.own.delete(each);
    }
  });
}
