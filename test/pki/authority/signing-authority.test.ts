import fc from "fast-check";
import { expect, test } from "vitest";
import { CaError } from "../../../src/foundation/errors.ts";
import { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { applyEdit, inHex } from "../../testkit/der/mutation.ts";
import { clusterLocal, tenDays } from "../../testkit/pki/certificates.ts";

const day = (n: number): Date => new Date(Date.UTC(2026, 0, n));

/** An authority that signs from one day until just before another. */
const authority = (id: string, from: number, until: number) => ({
  id,
  schedule: {
    publishedFrom: day(from - 1),
    signsFrom: day(from),
    signsUntil: day(until),
    retiresAt: day(until + 1),
  },
});

const idAt = (authorities: readonly ReturnType<typeof authority>[], now: Date) =>
  SigningAuthority.at(authorities, now)?.id;

test("nobody signs before the first authority, after the last, or in a gap", () => {
  const authorities = [authority("a", 5, 10), authority("b", 15, 20)];
  expect([4, 10, 12, 20, 30].map((n) => idAt(authorities, day(n)))).toEqual(
    Array(5).fill(undefined),
  );
  expect(idAt([], day(5))).toBeUndefined();
});

test("an authority signs from its first instant to its last", () => {
  const authorities = [authority("a", 5, 10)];
  expect(idAt(authorities, day(5))).toBe("a");
  expect(idAt(authorities, new Date(day(10).getTime() - 1))).toBe("a");
});

test("the newest authority wins as soon as it is in its signing phase", () => {
  const authorities = [
    authority("old", 5, 20),
    authority("new", 10, 20),
    authority("next", 15, 20),
  ];
  expect(idAt(authorities, day(9))).toBe("old");
  expect(idAt(authorities, day(10))).toBe("new");
  expect(idAt(authorities, day(16))).toBe("next");
});

test("every reader chooses the same of several that begin together, in any order of records", () => {
  const ids = fc.uniqueArray(fc.stringMatching(/^[0-9a-f]{40}$/), { minLength: 2, maxLength: 5 });
  fc.assert(
    fc.property(ids, fc.infiniteStream(fc.nat()), (names, numbers) => {
      const authorities = names.map((id) => authority(id, 5, 10));
      const shuffled = authorities
        .map((one) => ({ one, key: numbers.next().value }))
        .toSorted((a, b) => a.key - b.key)
        .map(({ one }) => one);
      expect(idAt(shuffled, day(7))).toBe(idAt(authorities, day(7)));
      expect(idAt(shuffled, day(7))).toBe(names.toSorted()[0]);
    }),
  );
});

test("does not reorder the list that it was given", () => {
  const authorities = [authority("old", 5, 20), authority("new", 10, 20)];
  SigningAuthority.at(authorities, day(12));
  expect(authorities.map(({ id }) => id)).toEqual(["old", "new"]);
});

const { authority: valid } = await NewAuthority.create(clusterLocal, "EC-P256", tenDays);
const certificate = Buffer.from(valid.certificate.der);

const create = (der: Uint8Array<ArrayBuffer>) =>
  SigningAuthority.create({ certificate: der, intermediates: [], roots: [der] }, tenDays);

test("a signing authority has the id and the key of its certificate", async () => {
  const read = await create(certificate);
  expect(read.id).toBe(valid.id);
  expect(inHex(read.publicKey.spki)).toBe(inHex(valid.publicKey.spki));
});

const wrong = {
  "with a trailing octet": { at: [], after: "00" },
  "of version 1": { at: [0, 0], replace: "" },
  "without extensions": { at: [0, 7], replace: "" },
  "with another algorithm outside than inside": { at: [1], replace: "300a06082a8648ce3d040303" },
  "without a signature": { at: [2], replace: "" },
  "with an extension twice": { at: [0, 7, 0, 0], after: "300e0603551d0f0101ff040403020106" },
  "with an indefinite length": { at: [0], header: "3080", append: "0000" },
};

test.each(Object.entries(wrong))("refuses a certificate %s", async (_, edit) => {
  await expect(create(applyEdit(certificate, edit))).rejects.toBeInstanceOf(DerError);
});

test("refuses a certificate whose key the policy refuses", async () => {
  const spki = `3056301006072a8648ce3d020106052b8104000a03420004${"11".repeat(64)}`;
  const der = applyEdit(certificate, { at: [0, 6], replace: spki });
  await expect(create(der)).rejects.toBeInstanceOf(CaError);
});

test("is the first to begin after the instant, in whatever order they are", () => {
  const authorities = [authority("late", 9, 12), authority("now", 2, 6), authority("soon", 5, 9)];
  expect(SigningAuthority.nextAt(authorities, day(3))?.id).toBe("soon");
  expect(SigningAuthority.nextAt(authorities.toReversed(), day(3))?.id).toBe("soon");
});

test.each([
  ["begins at this instant", authority("a", 3, 6)],
  ["has begun", authority("a", 2, 6)],
  ["is over", authority("a", 1, 2)],
  ["never signs, as a tainted one or an additional root", authority("a", 5, 5)],
])("is none that %s", (_, one) => {
  expect(SigningAuthority.nextAt([one], day(3))).toBeUndefined();
});
