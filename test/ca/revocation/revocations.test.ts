import { expect, test } from "vitest";
import { expiredRevocations, revocationOf } from "../../../src/ca/revocation/crl-plan.ts";
import { RevocationStatements } from "../../../src/ca/revocation/record-revocations.ts";
import { RevocationContent } from "../../../src/custody/record-kinds.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { createMemoryMint } from "../../testkit/ca/memory-mint.ts";
import { createKekRing } from "../../testkit/ca/sealed-authorities.ts";
import { openStore } from "../../testkit/ca/tainted-ca.ts";

const now = new Date("2026-11-22T12:00:00Z");
const propagation = 600;
const day = 86_400;
/** How long after its last certificate a record may go: two lifetimes of a CRL, and two intervals. */
const rest = 2 * day + 2 * propagation;

const revoked = (authority: string, ...endsAgo: readonly number[]): RevocationContent => ({
  authority,
  revokedAt: addSeconds(now, -90 * day),
  knownFrom: addSeconds(now, -90 * day),
  reason: "keyCompromise",
  certificates: new Map(
    endsAgo.map((seconds, i) => [`0${i + 1}`, now.getTime() / 1000 - seconds] as const),
  ),
});

const countExpired = (...records: readonly RevocationContent[]): number =>
  expiredRevocations(records, propagation, now).length;

test("a record of revocations stays until the last of its certificates has long expired, in any order", () => {
  expect(countExpired(revoked("aa", rest + 1, rest + 1))).toBe(1);
  expect(countExpired(revoked("aa", rest + 1, rest - 1))).toBe(0);
  expect(countExpired(revoked("aa", rest - 1, rest + 1))).toBe(0);
  expect(countExpired(revoked("aa", rest + 1), revoked("bb", 0), revoked("cc", rest + 1))).toBe(2);
});

test("a certificate is revoked by its number and its authority", () => {
  const records = [revoked("aa", 0), revoked("bb", 0, 0)];
  const of = (authority: string, serialNumber: string) =>
    revocationOf(records, { authority, serialNumber })?.authority;
  expect([of("aa", "01"), of("bb", "01"), of("bb", "02")]).toEqual(["aa", "bb", "bb"]);
  expect([of("aa", "02"), of("cc", "01")]).toEqual([undefined, undefined]);
});

test("each statement of a large revocation is recorded, and all of its certificates are in one", async () => {
  const { maximumCertificates } = RevocationContent;
  const mint = createMemoryMint(await createKekRing());
  const many = Array.from({ length: 2 * maximumCertificates + 1 }, (_, i) => {
    const end = now.getTime() / 1000;
    return [`01${i.toString(16).padStart(6, "0")}`, end] as const;
  });
  const statements = RevocationStatements.of({ ...revoked("aa"), certificates: new Map(many) });
  expect(statements.map(({ certificates }) => certificates.size)).toEqual([
    maximumCertificates,
    maximumCertificates,
    1,
  ]);
  await RevocationStatements.record(mint, statements);
  expect(mint.log.operations).toMatchObject(
    statements.map(({ certificates: { size } }) => ({
      event: "certificates-revoked",
      authority: "aa",
      certificates: size,
    })),
  );
  const { revocations } = await openStore(mint);
  const recorded = new Set(revocations.flatMap(({ certificates }) => [...certificates.keys()]));
  expect(recorded.size).toBe(many.length);
});
