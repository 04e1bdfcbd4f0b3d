import { describe, expect, test } from "vitest";
import { type JwsAlgorithm, verifyParameters } from "../../src/authn/token/jws-algorithm.ts";
import { nodeCryptography } from "../../src/node/node-cryptography.ts";
import { cryptography } from "../../src/pki/cryptography.ts";
import type { Bytes } from "../../src/pki/encoding/bytes.ts";
import {
  type SignatureAlgorithm,
  signatureAlgorithms,
} from "../../src/pki/x509/signature-algorithm.ts";
import { createTokenKey } from "../testkit/callers/tokens.ts";

// Elsewhere in these tests WebCrypto is in use: each side here is the oracle of the other.
const web = cryptography;
const bytes = crypto.getRandomValues(new Uint8Array(300));
const other = bytes.with(17, (bytes[17] ?? 0) ^ 1) as Bytes;

const algorithms = Object.entries(signatureAlgorithms).flatMap(([kind, list]) =>
  list.map((algorithm): [string, string, SignatureAlgorithm] => [algorithm.name, kind, algorithm]),
);

async function keyPair({ importParameters }: SignatureAlgorithm): Promise<CryptoKeyPair> {
  const rsa = { modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]) };
  const parameters = { ...rsa, ...importParameters };
  return (await crypto.subtle.generateKey(parameters, true, ["sign", "verify"])) as CryptoKeyPair;
}

const spkiOf = async ({ publicKey }: CryptoKeyPair): Promise<Bytes> =>
  new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));

describe("node:crypto behind the seam", () => {
  test.each(algorithms)("signs and verifies as WebCrypto does: %s of %s", async (_, __, each) => {
    const keys = await keyPair(each);
    const { signParameters } = each;
    const spki = await spkiOf(keys);
    for (const [signer, verifier] of [
      [nodeCryptography, web],
      [web, nodeCryptography],
    ] as const) {
      const signature = new Uint8Array(await signer.sign(signParameters, keys.privateKey, bytes));
      expect(signature.length).toBe(each.signatureOctets ?? signature.length);
      expect(await verifier.verifyBy(spki, each, signature, bytes)).toBe(true);
      expect(await verifier.verifyBy(spki, each, signature, other)).toBe(false);
      expect(await verifier.verify(signParameters, keys.publicKey, signature, bytes)).toBe(true);
      expect(await verifier.verify(signParameters, keys.publicKey, signature, other)).toBe(false);
    }
  });

  test.each(Object.keys(verifyParameters) as JwsAlgorithm[])(
    "verifies tokens of %s as WebCrypto does",
    async (algorithm) => {
      const { privateKey, publicJwk } = await createTokenKey(algorithm);
      const parameters = verifyParameters[algorithm];
      const publicKey = await crypto.subtle.importKey(
        "jwk",
        publicJwk,
        privateKey.algorithm as EcKeyImportParams,
        true,
        ["verify"],
      );
      const signature = new Uint8Array(await web.sign(parameters, privateKey, bytes));
      const broken = signature.with(3, (signature[3] ?? 0) ^ 1) as Bytes;
      const verify = (s: Bytes, b: Bytes) => nodeCryptography.verify(parameters, publicKey, s, b);
      expect(await verify(signature, bytes)).toBe(true);
      expect(await verify(signature, other)).toBe(false);
      expect(await verify(broken, bytes)).toBe(false);
      expect(await verify(signature.subarray(1), bytes)).toBe(false);
      expect(await verify(new Uint8Array(), bytes)).toBe(false);
    },
  );

  test("opens no key that is none", async () => {
    const [algorithm] = signatureAlgorithms["EC-P256"];
    if (!algorithm) throw new Error("no algorithm");
    const spki = await spkiOf(await keyPair(algorithm));
    const signature = new Uint8Array(64);
    const besideTheCurve = spki.with(-1, (spki.at(-1) ?? 0) ^ 1) as Bytes;
    for (const key of [
      besideTheCurve,
      spki.subarray(0, 40),
      new Uint8Array(),
      new Uint8Array(91),
    ]) {
      expect(await nodeCryptography.verifyBy(key, algorithm, signature, bytes)).toBeUndefined();
      expect(await web.verifyBy(key, algorithm, signature, bytes)).toBeUndefined();
    }
  });
});
