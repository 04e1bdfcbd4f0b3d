import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { usedTokensIn } from "../../../src/node/files/used-tokens.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const now = new Date("2026-11-22T12:00:00Z");
const token = { digest: "ab".repeat(32), until: addSeconds(now, 300) };

test("a token is new once, to every process and after a restart", async () => {
  const folder = await temporaryFolder();
  const [first, second] = [usedTokensIn(folder), usedTokensIn(folder)];
  const answers = await Promise.all([first(token, now), second(token, now), first(token, now)]);
  expect(answers.toSorted()).toEqual([false, false, true]);
  expect(await usedTokensIn(folder)(token, now)).toBe(false);
  for (const digest of ["cd".repeat(32), "ef".repeat(32)]) {
    expect(await first({ ...token, digest }, now)).toBe(true);
    for (const each of [first, second]) expect(await each({ ...token, digest }, now)).toBe(false);
  }
  expect(await second(token, now)).toBe(false);
});

test("a token is forgotten once it has ended, and not before", async () => {
  const folder = await temporaryFolder();
  const useToken = usedTokensIn(folder);
  await useToken(token, now);
  expect(await useToken(token, addSeconds(now, 299))).toBe(false);
  // A second one of the same end would count as forgotten.
  const second = { ...token, digest: "ef".repeat(32) };
  expect(await useToken(second, addSeconds(now, 299))).toBe(true);
  const other = { digest: "cd".repeat(32), until: addSeconds(now, 900) };
  await useToken(other, addSeconds(now, 360));
  expect((await readdir(join(folder, "used-tokens"))).toSorted()).toEqual([
    `${token.until.getTime() / 1000}-forgotten`,
    `${other.until.getTime() / 1000}-${other.digest}`,
  ]);
});

test("a token that was forgotten is not new by a clock that was set back, nor after a restart", async () => {
  const folder = await temporaryFolder();
  const [useToken, second] = [usedTokensIn(folder), usedTokensIn(folder)];
  const used = (digest: string, seconds: number) => ({ digest, until: addSeconds(now, seconds) });
  // The second process has looked lately, and cannot have seen what is forgotten since.
  await second(used("00", 900), addSeconds(now, 3601));
  await useToken(token, now);
  await useToken(used("01", 4000), addSeconds(now, 3600));
  for (const each of [useToken, second, usedTokensIn(folder)]) {
    expect(await each(token, now)).toBe(false);
    expect(await each(used("02", 299), now)).toBe(false);
  }
  const longer = used("03", 901);
  expect([await second(longer, now), await useToken(longer, now)]).toEqual([true, false]);
  // Of several that were forgotten the last one counts, and is kept.
  await useToken(used("04", 9000), addSeconds(now, 8000));
  await useToken(used("05", 9100), addSeconds(now, 8100));
  expect(await usedTokensIn(folder)(used("06", 4000), now)).toBe(false);
  expect(await readdir(join(folder, "used-tokens"))).toHaveLength(3);
});

test("a folder that cannot be read refuses a token, and the next call after it can accepts it", async () => {
  const folder = await temporaryFolder();
  const useToken = usedTokensIn(folder);
  await writeFile(join(folder, "used-tokens"), "in the way");
  await expect(useToken(token, now)).rejects.toThrow();
  await rm(join(folder, "used-tokens"));
  expect([await useToken(token, now), await useToken(token, now)]).toEqual([true, false]);
});

test("no token is accepted where no more can be remembered", async () => {
  const useToken = usedTokensIn(await temporaryFolder(), 2);
  const used = (digest: string) => useToken({ ...token, digest }, now);
  expect([await used("01"), await used("02")]).toEqual([true, true]);
  await expect(used("03")).rejects.toMatchObject({ refusal: { reason: "too-many-waiting" } });
  // Once those have ended, there is room again.
  const later = addSeconds(now, 360);
  const next = { digest: "04", until: addSeconds(later, 300) };
  expect([await useToken(next, later), await useToken(next, later)]).toEqual([true, false]);
});
