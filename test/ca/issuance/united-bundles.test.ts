import { beforeAll, describe, expect, test } from "vitest";
import { uniteBundles } from "../../../src/ca/issuance/signers.ts";
import type { StoredRecord } from "../../../src/custody/authority-store.ts";
import type { KekRing } from "../../../src/custody/kek.ts";
import { loadAuthorities } from "../../testkit/ca/loaded-authorities.ts";
import {
  createKekRing,
  scheduleAfter,
  sealNewAuthority,
} from "../../testkit/ca/sealed-authorities.ts";

const start = new Date("2026-11-21T12:00:00Z");

let keks: KekRing;
let records: StoredRecord[];

beforeAll(async () => {
  keks = await createKekRing();
  const seal = () => sealNewAuthority(keks, scheduleAfter(start, [-100, 0, 86_400, 100_000]));
  records = await Promise.all([seal(), seal(), seal()]);
});

/** Three signers that have read their stores, which an authority has joined since. */
async function outdatedSigners() {
  const signers = records.map(() => loadAuthorities(keks));
  const united = signers.map(({ authorities }) =>
    uniteBundles(
      authorities,
      signers.flatMap((other) => (other.authorities === authorities ? [] : other.authorities)),
    ),
  );
  const rootsAt = async () =>
    Promise.all(united.map(async (each) => (await each.at(start)).trustBundle.roots.length));
  expect(await rootsAt()).toEqual([0, 0, 0]);
  for (const [i, record] of records.entries()) await signers[i]?.store.put(record);
  return { signers, united, rootsAt };
}

describe("signers with one trust bundle", () => {
  test("all have the stores of all of them as they are when one is renewed", async () => {
    const { signers, united, rootsAt } = await outdatedSigners();
    expect(await rootsAt()).toEqual([0, 0, 0]);
    await united[1]?.renew(start);
    expect(await rootsAt()).toEqual([3, 3, 3]);
    expect(signers.map(({ store }) => store.loads)).toEqual([2, 2, 2]);
  });

  test.each([0, 1, 2])("are not renewed while store %i cannot be read", async (down) => {
    const { signers, united } = await outdatedSigners();
    const [first] = united;
    Object.assign(signers[down]?.store ?? {}, { outage: new Error("down") });
    await expect(first?.renew(start)).rejects.toHaveProperty("refusal.reason", "store-unreachable");
  });

  test("share nothing where there is one", () => {
    const { authorities } = loadAuthorities(keks);
    expect(uniteBundles(authorities, [])).toBe(authorities);
  });
});
