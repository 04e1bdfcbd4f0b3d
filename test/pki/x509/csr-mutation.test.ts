import fc from "fast-check";
import { expect, test } from "vitest";
import { CaError } from "../../../src/foundation/errors.ts";
import { flipBit, type Octets } from "../../testkit/der/mutation.ts";
import { buildCsr, csrPem, generateSigner, type SignerKind } from "../../testkit/pki/csr.ts";
import { parseCsr } from "../../testkit/pki/csr-parsing.ts";

const reasons = new Set([
  "csr-malformed",
  "csr-signature-invalid",
  "csr-signature-algorithm-unacceptable",
  "subject-key-unacceptable",
]);

/** The wrong answer to a CSR that must be refused; `undefined` for a right refusal. */
async function wrongAnswer(csr: Uint8Array): Promise<string | undefined> {
  try {
    await parseCsr(csrPem(csr));
    return "accepted";
  } catch (error) {
    if (error instanceof CaError && reasons.has(error.refusal.reason)) return undefined;
    return String(error);
  }
}

async function wrongAnswers(cases: readonly Octets[]): Promise<string[]> {
  const wrong: string[] = [];
  // Each case is a few operations of a pool of four threads, so small groups suffice.
  for (let i = 0; i < cases.length; i += 16) {
    const answers = await Promise.all(cases.slice(i, i + 16).map(wrongAnswer));
    for (const [j, answer] of answers.entries()) if (answer) wrong.push(`case ${i + j}: ${answer}`);
  }
  return wrong;
}

/** The step from bit to bit: every bit, or some of each octet where there are many or they take long. */
const flips: readonly [SignerKind, number][] = [
  ["EC-P256", 3],
  ["EC-P384", 11],
  ["EC-P521", 13],
  ["RSA-2048", 11],
  ["Ed25519", 5],
];

test.each(flips)("refuses a CSR of an %s key with one bit changed", async (kind, step) => {
  const csr = buildCsr(generateSigner(kind));
  const count = Math.ceil((csr.length * 8) / step);
  const flipped = Array.from({ length: count }, (_, i) => flipBit(csr, i * step));
  expect(await wrongAnswers(flipped)).toEqual([]);
});

const splice = fc.record({
  at: fc.nat({ max: 400 }),
  remove: fc.nat({ max: 6 }),
  insert: fc.uint8Array({ maxLength: 6 }),
});

test.each(["EC-P256", "Ed25519"] as const)(
  "refuses a CSR of an %s key with any octets exchanged",
  async (kind) => {
    const csr = buildCsr(generateSigner(kind));
    await fc.assert(
      fc.asyncProperty(splice, async ({ at, remove, insert }) => {
        const changed = Buffer.concat([csr.subarray(0, at), insert, csr.subarray(at + remove)]);
        fc.pre(!changed.equals(csr));
        expect(await wrongAnswer(changed)).toBeUndefined();
      }),
      { numRuns: 300 },
    );
  },
);
