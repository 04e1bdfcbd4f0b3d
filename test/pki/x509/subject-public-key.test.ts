import { createPublicKey } from "node:crypto";
import { describe, expect, test } from "vitest";
import { CaError } from "../../../src/foundation/errors.ts";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { contentOf, der, elementAt, hex, inHex, type Octets } from "../../testkit/der/mutation.ts";
import { buildCsr, csrPem, generateSigner, signatureIdentifier } from "../../testkit/pki/csr.ts";
import { parseCsr } from "../../testkit/pki/csr-parsing.ts";
import { readVectors } from "../../testkit/pki/vectors.ts";
import { refusalOf } from "../../testkit/refusal.ts";

/** The numbers of an RSA key without its factors, which a refusal for the numbers does not need. */
interface RsaKeyVector {
  readonly modulusBits: number;
  readonly exponent: string;
  /** These octets replace the zero that makes a modulus positive. */
  readonly firstOctets?: string;
  readonly lastOctet?: string;
  readonly after?: string;
  readonly trailing?: string;
}

interface Vector {
  readonly name: string;
  readonly spki?: string;
  readonly rsaKey?: RsaKeyVector;
  readonly algorithm?: string;
  readonly refusal?: { readonly reason: string; readonly fault?: string };
  /** Whether the import of the key refuses it, and not the parser. */
  readonly atImport?: boolean;
}

function rsaSpki(key: RsaKeyVector): Octets {
  const modulus = Buffer.alloc(Math.ceil(key.modulusBits / 8), 0xc5);
  modulus[0] = 0xff >> (modulus.length * 8 - key.modulusBits);
  modulus.set(hex(key.lastOctet ?? "c5"), modulus.length - 1);
  const sign = hex(key.firstOctets ?? (key.modulusBits % 8 === 0 ? "00" : ""));
  const numbers = [der(0x02, sign, modulus), der(0x02, hex(key.exponent)), hex(key.after ?? "")];
  const octets = Buffer.concat([der(0x30, ...numbers), hex(key.trailing ?? "")]);
  return der(0x30, hex("300d06092a864886f70d0101010500"), der(0x03, hex("00"), octets));
}

const rows = readVectors<Vector>("subject-public-key").map((vector) => ({
  ...vector,
  octets: vector.rsaKey ? rsaSpki(vector.rsaKey) : hex(vector.spki ?? ""),
}));
const accepted = rows.filter(({ algorithm }) => algorithm !== undefined);
const refused = rows.filter(({ refusal }) => refusal !== undefined);

const p256 = generateSigner("EC-P256");
const rsa2048 = generateSigner("RSA-2048");

/** A CSR for a key whose private key nobody has, with another key's signature of the right form. */
function forgedCsr(spki: Octets): string {
  const isRsa = inHex(elementAt(spki, [0])).includes("2a864886f70d0101");
  const signer = isRsa ? rsa2048 : p256;
  const ofKey = inHex(elementAt(spki, [0]));
  const own = (["Ed25519", "ML-DSA-44"] as const).find(
    (name) => inHex(signatureIdentifier[name]) === ofKey,
  );
  const identifier = signatureIdentifier[own ?? signer.algorithm];
  return csrPem(buildCsr(signer, { spki, identifier }));
}

describe("the parser", () => {
  test.each(accepted)("accepts $name", ({ octets, algorithm }) => {
    const key = SubjectPublicKey.parse(octets);
    expect(key.algorithm).toBe(algorithm);
    expect(inHex(key.spki)).toBe(inHex(octets));
    expect(inHex(key.keyOctets)).toBe(inHex(contentOf(elementAt(octets, [1]))));
  });

  test.each(refused.filter(({ atImport }) => !atImport))("refuses $name", ({ octets, refusal }) => {
    const error = thrownBy(() => SubjectPublicKey.parse(octets));
    if (refusal?.reason === "csr-malformed") expect(error).toBeInstanceOf(DerError);
    else expect(error).toMatchObject({ refusal });
  });

  test.each(refused.filter(({ atImport }) => atImport))(
    "leaves $name to the import",
    ({ octets }) => {
      expect(SubjectPublicKey.parse(octets).algorithm).toMatch(/^EC-/);
    },
  );

  test("reads every key that node:crypto reads from the accepted vectors alike", () => {
    for (const { octets, algorithm } of accepted) {
      const { asymmetricKeyType } = createPublicKey({ key: octets, format: "der", type: "spki" });
      const ofNode = { ec: "EC", rsa: "RSA", ed25519: "Ed25519", "ml-dsa-44": "ML" }[
        asymmetricKeyType as string
      ];
      expect(algorithm?.split("-")[0]).toBe(ofNode);
    }
  });
});

describe("a CSR", () => {
  test.each(accepted)("of $name is refused when another key signed it", async ({ octets }) => {
    const refusal = await refusalOf(() => parseCsr(forgedCsr(octets)));
    expect(refusal).toEqual({ reason: "csr-signature-invalid" });
  });

  test.each(refused)("of $name is refused for its key", async ({ octets, refusal }) => {
    const answer = await refusalOf(() => parseCsr(forgedCsr(octets)));
    expect(answer).toEqual(refusal);
  });
});

test("refuses a SubjectPublicKeyInfo with an octet more or less anywhere", () => {
  const spki = p256.spki;
  const [algorithm, key] = [elementAt(spki, [0]), elementAt(spki, [1])];
  const wrong = [
    Buffer.concat([spki, hex("00")]),
    der(0x30, algorithm, key, hex("0500")),
    der(0x30, algorithm),
    der(0x30, key, algorithm),
    der(0x31, algorithm, key),
    spki.subarray(0, -1),
    hex(""),
  ];
  for (const octets of wrong) {
    expect(thrownBy(() => SubjectPublicKey.parse(octets))).toBeInstanceOf(DerError);
  }
});

function thrownBy(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    if (error instanceof CaError || error instanceof DerError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}
