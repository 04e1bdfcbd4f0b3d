import { describe, expect, test } from "vitest";
import { Authorities } from "../../../src/ca/authorities.ts";
import type { Mint } from "../../../src/ca/mint.ts";
import { foundIfEmpty, Rotation } from "../../../src/ca/rotation/rotate.ts";
import { sharePromises } from "../../../src/node/limits/promise-sharing.ts";
import {
  authoritiesIn,
  createMemoryMint,
  istioPhaseLengths,
  type MemoryMint,
} from "../../testkit/ca/memory-mint.ts";
import { createKekRing } from "../../testkit/ca/sealed-authorities.ts";

const noon = new Date("2026-11-21T12:00:00.250Z");
const day = 86_400;
const phaseLengths = istioPhaseLengths;

const seconds = (from: Date, to: Date): number => (to.getTime() - from.getTime()) / 1000;

const keks = await createKekRing();

const mint = (changes: Partial<Mint> = {}): MemoryMint => createMemoryMint(keks, changes);

const viewsOf = (found: Mint): Authorities =>
  Authorities.create({
    ...found,
    refreshSeconds: 60,
    surviveOutageSeconds: 600,
    shareWork: sharePromises,
  });

describe("an empty store", () => {
  test("gets its first authority on the day of inception, and that is logged", async () => {
    const empty = mint();
    await foundIfEmpty(empty, noon);
    expect(empty.store.records.size).toBe(1);
    const [record] = await empty.store.load();
    expect(empty.log.operations).toEqual([
      expect.objectContaining({
        event: "authority-minted",
        level: "info",
        authority: record?.id,
        publishedFrom: "2026-11-21T12:00:00.000Z",
        signsFrom: expect.stringMatching(/^2026-11-21T12:[0-5]\d:00\.000Z$/),
        signsUntil: expect.stringMatching(/^2027-11-/),
      }),
    ]);
  });

  test("gets no other authority from the program that has seen one, on the day of inception either", async () => {
    const emptied = mint();
    await foundIfEmpty(emptied, noon);
    await Rotation.rotate(emptied, noon);
    emptied.store.records.clear();
    await expect(Rotation.rotate(emptied, noon)).rejects.toThrow(
      /held authorities and holds none now/,
    );
    expect(emptied.store.records.size).toBe(0);
  });

  test("gets an authority that is published at once and signs when every reader has seen it", async () => {
    const { schedule, views } = await foundAndOpen();
    expect(schedule.publishedFrom).toEqual(new Date("2026-11-21T12:00:00Z"));
    expect(seconds(schedule.publishedFrom, schedule.signsFrom)).toBeGreaterThanOrEqual(600);
    const before = await views.at(new Date(schedule.signsFrom.getTime() - 1));
    expect(before.trustBundle.roots).toHaveLength(1);
    expect(before.issuer).toBeUndefined();
    expect((await views.at(schedule.signsFrom)).issuer).toBeDefined();
  });

  test("gets an authority with room for the last leaf it signs", async () => {
    const { schedule, validity } = await foundAndOpen();
    expect(seconds(schedule.signsFrom, schedule.signsUntil)).toBe(360 * day);
    expect(seconds(schedule.signsUntil, schedule.retiresAt)).toBe(90 * day + 600);
    expect(validity.notAfter).toEqual(schedule.retiresAt);
  });

  async function foundAndOpen() {
    const empty = mint();
    await foundIfEmpty(empty, noon);
    const [authority] = await authoritiesIn(empty);
    if (!authority) throw new Error("nothing was founded");
    const { validity } = authority.certificate.toBeSigned;
    return {
      schedule: authority.schedule,
      validity,
      views: viewsOf(empty),
    };
  }

  test.each([
    ["the first instant", "2026-11-21T00:00:00.000Z"],
    ["the last instant", "2026-11-21T23:59:59.999Z"],
  ])("gets it at %s of the day, in UTC", async (_, instant) => {
    const empty = mint();
    await foundIfEmpty(empty, new Date(instant));
    expect(empty.store.records.size).toBe(1);
  });

  test.each<[string, string | undefined, Date]>([
    ["without a day of inception", undefined, noon],
    ["a day early", "2026-11-22", noon],
    ["a day late", "2026-11-20", noon],
    ["a year late", "2025-11-21", noon],
    ["an instant early", "2026-11-21", new Date("2026-11-20T23:59:59.999Z")],
    ["an instant late", "2026-11-21", new Date("2026-11-22T00:00:00.000Z")],
  ])("stays empty, and the run fails, %s", async (_, inceptionDate, now) => {
    const empty = mint({ inceptionDate });
    await expect(foundIfEmpty(empty, now)).rejects.toThrow(/INCEPTION_DATE/);
    expect(empty.store.records.size).toBe(0);
    expect(empty.log.operations).toEqual([]);
  });

  test("that two runs found at once gets two authorities, of which every reader chooses the same", async () => {
    const empty = mint({ phaseLengths: { ...phaseLengths, propagationSeconds: 0 } });
    await Promise.all([foundIfEmpty(empty, noon), foundIfEmpty(empty, noon)]);
    const views = await Promise.all([1, 2].map(() => viewsOf(empty).at(noon)));
    expect(views[0]?.trustBundle.roots).toHaveLength(empty.store.records.size);
    expect(views[0]?.issuer?.authority.id).toBe(views[1]?.issuer?.authority.id);
  });
});

describe("a store that is not empty", () => {
  test("is not touched on the day of inception", async () => {
    const found = mint();
    await foundIfEmpty(found, noon);
    const before = [...found.store.records];
    await foundIfEmpty(found, noon);
    expect([...found.store.records]).toEqual(before);
    expect(found.log.operations).toHaveLength(1);
  });

  test.each<[string, string]>([
    ["that is junk", "junk"],
    ["of a future version", '{"version":2}'],
  ])("is not touched though its only record is one %s", async (_, value) => {
    const found = mint();
    await found.store.put({ kind: "authority", id: "a", value });
    await foundIfEmpty(found, noon);
    expect([...found.store.records]).toEqual([["authority/a", value]]);
  });

  test("is not touched with another KEK", async () => {
    const found = mint();
    await foundIfEmpty(found, noon);
    await foundIfEmpty({ ...found, keks: await createKekRing("other") }, noon);
    expect(found.store.records.size).toBe(1);
  });

  test("does not fail a run on any other day", async () => {
    const found = mint();
    await foundIfEmpty(found, noon);
    const later = { ...found, inceptionDate: undefined };
    await expect(foundIfEmpty(later, new Date("2030-01-01T00:00:00Z"))).resolves.toBeUndefined();
  });
});

test("a store that cannot be read is not taken for an empty one", async () => {
  const down = mint();
  down.store.outage = new Error("down");
  await expect(foundIfEmpty(down, noon)).rejects.toBe(down.store.outage);
  down.store.outage = undefined;
  expect(down.store.records.size).toBe(0);
});
