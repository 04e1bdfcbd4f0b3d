import { expect, test } from "vitest";
import { carryOutKeyPlan, mintTokenKey, planKeys } from "../../src/ca/mint.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { createMemoryMint, istioPhaseLengths } from "../testkit/ca/memory-mint.ts";
import {
  createKekRing,
  scheduleAfter,
  sealNewAuthority,
} from "../testkit/ca/sealed-authorities.ts";
import { openStore } from "../testkit/ca/tainted-ca.ts";

const now = new Date("2026-11-21T12:00:00Z");
const { propagationSeconds } = istioPhaseLengths;
const [hour, year] = [3600, 365 * 86_400];
const keks = await createKekRing();

/** A mint whose authority has signed for so long. */
async function mintAfter(seconds: number) {
  const mint = createMemoryMint(keks, { tokenAlgorithm: "ES256" });
  await mint.store.put(
    await sealNewAuthority(keks, scheduleAfter(now, [-year, -seconds, year, year])),
  );
  return mint;
}

const planAt = async (mint: Awaited<ReturnType<typeof mintAfter>>, at: Date) =>
  planKeys(mint, await openStore(mint), at);

test.each([
  [59, 0],
  [60, 600],
])(
  "the first key of a mesh that signs for %i seconds is known to relying parties %i seconds before it signs",
  async (seconds, ahead) => {
    const { mint: schedule } = await planAt(await mintAfter(seconds), now);
    const published = addSeconds(now, propagationSeconds);
    expect(schedule?.publishedFrom).toEqual(published);
    expect(schedule?.signsFrom).toEqual(addSeconds(published, ahead));
  },
);

test("keys that have ended are deleted in one run, each with a log line, once every reader has seen a later change", async () => {
  const mint = await mintAfter(year);
  const long = -60 * hour;
  for (const end of [long, long - 1])
    await mintTokenKey(mint, "ES256", scheduleAfter(now, [-year, -year, end, end]));
  await mintTokenKey(mint, "ES256", scheduleAfter(now, [-1, hour, year, year]));
  mint.log.operations.length = 0;
  const ids = async (at: Date) => (await planAt(mint, at)).prune;
  expect(await ids(now)).toHaveLength(1);
  const later = addSeconds(now, propagationSeconds);
  const ended = await ids(later);
  await carryOutKeyPlan(mint, await planAt(mint, later));
  expect(mint.log.operations).toMatchObject([
    { event: "token-key-minted" },
    ...ended.map((key) => ({ event: "token-key-pruned", key })),
  ]);
  const left = (await openStore(mint)).tokenKeys.map(({ id }) => id);
  expect(ended).toHaveLength(2);
  for (const id of ended) expect(left).not.toContain(id);
});
