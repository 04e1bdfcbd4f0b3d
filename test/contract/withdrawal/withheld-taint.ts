import { beforeEach, describe, expect, test } from "vitest";
import { Mint } from "../../../src/ca/mint.ts";
import { foundIfEmpty, Rotation } from "../../../src/ca/rotation/rotate.ts";
import type { Composition } from "../../../src/config/composition.ts";
import type { StoredRecord } from "../../../src/custody/authority-store.ts";
import { Statement } from "../../../src/custody/statement.ts";
import { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { AdditionalRoot } from "../../../src/pki/authority/trust-bundle.ts";
import type { CryptoProvider } from "../../../src/pki/crypto-provider.ts";
import { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { CaRoutes } from "../../../src/transport/http/routes.ts";
import { scheduleAfter } from "../../testkit/ca/sealed-authorities.ts";
import { composeOn, begin as now, type SignerStores } from "./asked-ca.ts";

const instant = now.toISOString();

/**
 * The promises of `TAINTED_AUTHORITIES`: a taint that the configuration states counts, whatever the store
 * shows.
 *
 * @param createStores Makes empty stores.
 */
export function describeWithheldTaint(
  createStores: () => Promise<SignerStores>,
  cryptoProvider: CryptoProvider,
): void {
  let stores: SignerStores;
  let untainted: Composition;
  let records: readonly StoredRecord[];
  let id: string;

  const composed = (TAINTED_AUTHORITIES: readonly unknown[] | string = []) =>
    composeOn(stores, cryptoProvider, {}, { TAINTED_AUTHORITIES });
  const viewOf = ({ certificateAuthority }: Composition) =>
    certificateAuthority.issuance.authorities.at(now);
  const signerOf = async (composition: Composition) =>
    (await viewOf(composition)).issuer?.authority.id;
  const readinessOf = async ({ certificateAuthority }: Composition) => {
    const { status } = await CaRoutes.create(certificateAuthority).request("/readyz");
    return status;
  };
  const taintNow = () => Mint.recordTaint(untainted.mint, { id, taintedAt: now, retiresAt: now });
  const dropTaints = async () => {
    for (const record of await stores.own.load()) {
      if (record.kind === "taint") await stores.own.delete(record);
    }
  };

  beforeEach(async () => {
    stores = await createStores();
    untainted = await composed();
    for (const mint of [untainted.mint, ...untainted.signerMints.values()]) {
      await foundIfEmpty(mint, now);
    }
    records = await stores.own.load();
    id = (await signerOf(untainted)) ?? "";
  });

  const lacking = () => `the store lacks the taint of ${id} that TAINTED_AUTHORITIES states`;

  describe("a taint that the store loses", () => {
    test("makes the authority sign again, without TAINTED_AUTHORITIES", async () => {
      await taintNow();
      expect(await signerOf(await composed())).toBeUndefined();
      await dropTaints();
      expect(await signerOf(await composed())).toBe(id);
    });

    test("counts while the configuration states it, and is reported as missing", async () => {
      await taintNow();
      await dropTaints();
      const ca = await composed([{ id, root_until: instant }]);
      const { issuer, trustBundle, reasons } = await viewOf(ca);
      expect([issuer, trustBundle.roots.length]).toEqual([undefined, 1]);
      expect(reasons).toEqual(["no authority signs at this time", lacking()]);
      expect(await readinessOf(ca)).toBe(503);
      await Rotation.rotate(ca.mint, now);
      expect([undefined, id]).not.toContain(await signerOf(await composed([id])));
    });

    test("counts when a backup from before brings everything back", async () => {
      await taintNow();
      for (const record of await stores.own.load()) await stores.own.delete(record);
      for (const record of records) await stores.own.put(record);
      expect(await signerOf(await composed())).toBe(id);
      expect(await signerOf(await composed([id]))).toBeUndefined();
    });
  });

  describe("a taint that the configuration alone states", () => {
    test("keeps the root while no instant is given, signs nothing, and vouches for no leaf", async () => {
      const { vouching: before } = await viewOf(untainted);
      expect(before.map((authority) => authority.id)).toContain(id);
      const ca = await composed([id]);
      const { issuer, trustBundle, reasons, vouching } = await viewOf(ca);
      expect([issuer, trustBundle.roots.length]).toEqual([undefined, 2]);
      expect(vouching.map((authority) => authority.id)).not.toContain(id);
      expect(reasons).toContain(lacking());
      expect(reasons).toContainEqual(
        expect.stringMatching(`^${id} is tainted, and its root trusted until 20`),
      );
    });

    test("counts by its first 16 characters, as JSON in a text", async () => {
      expect(await signerOf(await composed(JSON.stringify([id.slice(0, 16)])))).toBeUndefined();
    });

    test("counts for the authorities of a named signer", async () => {
      const named = async (composition: Composition) =>
        (await composition.certificateAuthority.issuance.signers.get("team-a")?.authorities.at(now))
          ?.issuer?.authority.id;
      const mint = untainted.signerMints.get("team-a");
      const [{ id: theirs = "" } = {}] = (await mint?.store.load()) ?? [];
      await composed([theirs]).then(async (ca) => {
        expect(await named(ca)).toBeUndefined();
        expect(await signerOf(ca)).toBe(id);
      });
    });

    test("takes the root of another CA from the bundle at the instant that it says", async () => {
      const { trustDomain, keks } = untainted.mint;
      const schedule = scheduleAfter(now, [-60, -60, 3600, 7200]);
      const { der } = (await NewAuthority.create(trustDomain, "EC-P256", schedule)).authority
        .certificate;
      const root = AdditionalRoot.create(der, new Date(0));
      await stores.own.put(await Statement.seal("root", root, { trustDomain, keks }));
      const holdsIt = async (stated: readonly unknown[]) =>
        (await viewOf(await composed(stated))).trustBundle.roots.some((each) =>
          Bytes.equal(each, der),
        );
      expect([await holdsIt([]), await holdsIt([root.id])]).toEqual([true, true]);
      expect(await holdsIt([{ id: root.id, root_until: instant }])).toBe(false);
    });

    test("does nothing to an authority of another id", async () => {
      const other = `${id.startsWith("0") ? "1" : "0"}${id.slice(1)}`;
      const ca = await composed([other, "ab".repeat(20)]);
      const { issuer, reasons } = await viewOf(ca);
      expect([issuer?.authority.id, reasons]).toEqual([id, []]);
    });

    test("gives every reader the bundle and the number that the record gives", async () => {
      await taintNow();
      const stored = await viewOf(await composed());
      const both = await viewOf(await composed([{ id, root_until: instant }]));
      await dropTaints();
      const stated = await viewOf(await composed([{ id, root_until: instant }]));
      for (const view of [both, stated]) {
        expect([view.sequence, view.trustBundle.pem]).toEqual([
          stored.sequence,
          stored.trustBundle.pem,
        ]);
      }
      expect(both.reasons).not.toContain(lacking());
    });
  });
}
