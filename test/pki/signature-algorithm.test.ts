import fc from "fast-check";
import { expect, test } from "vitest";
import { DerError } from "../../src/pki/encoding/der-reader.ts";
import { DerBuilder } from "../../src/pki/encoding/internal/der-builder.ts";
import { type SignatureAlgorithm, signatureAlgorithms } from "../../src/pki/signature-algorithm.ts";
import { fromX509Signature } from "../../src/pki/signature-reader.ts";
import { prependX509Signature, toX509Signature } from "../../src/pki/signature-writer.ts";
import { der, derInteger, inHex } from "../testkit/der/mutation.ts";
import { signatureIdentifier } from "../testkit/pki/csr.ts";

const curves = [
  ["EC-P256", 32],
  ["EC-P384", 48],
  ["EC-P521", 66],
] as const;

const algorithmOf = (key: keyof typeof signatureAlgorithms): SignatureAlgorithm => {
  const [algorithm] = signatureAlgorithms[key];
  if (!algorithm) throw new Error(`no algorithm for ${key}`);
  return algorithm;
};

test.each(curves)("pads and unpads any scalars of %s", (key, octets) => {
  const scalar = fc
    .tuple(
      fc.bigInt({ min: 0n, max: (1n << BigInt(octets * 8)) - 1n }),
      fc.nat({ max: octets * 8 }),
    )
    .map(([value, shift]) => value >> BigInt(shift));
  fc.assert(
    fc.property(scalar, scalar, (r, s) => {
      const fixed = (value: bigint) => value.toString(16).padStart(octets * 2, "0");
      const encoded = der(0x30, derInteger(r), derInteger(s));
      const raw = fromX509Signature(encoded, algorithmOf(key), "ieee-p1363");
      expect(inHex(raw)).toBe(fixed(r) + fixed(s));
      expect(inHex(toX509Signature(raw, octets))).toBe(inHex(encoded));
    }),
    { numRuns: 200 },
  );
});

test.each(curves)("refuses a scalar one bit larger than %s", (key, octets) => {
  const large = derInteger(1n << BigInt(octets * 8));
  const small = derInteger(1n);
  for (const pair of [der(0x30, large, small), der(0x30, small, large)]) {
    for (const encoding of ["der", "ieee-p1363"] as const) {
      expect(() => fromX509Signature(pair, algorithmOf(key), encoding)).toThrow(DerError);
    }
  }
});

test("leaves a signature alone that is not a pair, or is X.509's already", () => {
  const signature = new Uint8Array(64).fill(7);
  const pair = der(0x30, derInteger(1n), derInteger(2n));
  const cases = [
    ["RSA", "der", signature],
    ["RSA", "ieee-p1363", signature],
    ["Ed25519", "der", signature],
    ["Ed25519", "ieee-p1363", signature],
    ["EC-P256", "der", pair],
  ] as const;
  for (const [key, encoding, octets] of cases) {
    expect(fromX509Signature(octets, algorithmOf(key), encoding)).toBe(octets);
    const builder = new DerBuilder(octets.length);
    prependX509Signature(builder, octets, algorithmOf(key), encoding);
    expect(inHex(builder.finish())).toBe(inHex(octets));
  }
});

test("names exactly the algorithms of SHA-2, Ed25519 and ML-DSA", () => {
  const known = Object.entries(signatureIdentifier)
    .filter(([name]) => /SHA(256|384|512)$|^sha(256|384|512)With|^Ed25519$|^ML-DSA/.test(name))
    .map(([, identifier]) => inHex(identifier));
  const listed = Object.values(signatureAlgorithms).flatMap((list) =>
    list.map(({ identifier }) => inHex(identifier)),
  );
  expect([...new Set(listed)].toSorted()).toEqual(known.toSorted());
});
