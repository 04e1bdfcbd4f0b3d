import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { describe, expect, test } from "vitest";
import { nodeCryptoProvider, takeSigningKey } from "../../src/node/node-crypto-provider.ts";
import type { Bytes } from "../../src/pki/encoding/bytes.ts";
import { type SignatureAlgorithm, signatureAlgorithms } from "../../src/pki/signature-algorithm.ts";
import { fromX509Signature } from "../../src/pki/signature-reader.ts";
import { toX509Signature } from "../../src/pki/signature-writer.ts";
import { webCryptoProvider, webSigningKey } from "../../src/pki/web-crypto.ts";
import { describeOpenedKeys } from "../contract/opened-keys.ts";
import { expectNothingExportable } from "../testkit/reachable-keys.ts";

// WebCrypto is the oracle of node:crypto, and node:crypto of WebCrypto.
const bytes = crypto.getRandomValues(new Uint8Array(300));
const other = bytes.with(17, (bytes[17] ?? 0) ^ 1) as Bytes;

const algorithms = Object.entries(signatureAlgorithms).flatMap(([kind, list]) =>
  list.map((algorithm): [string, string, SignatureAlgorithm] => [algorithm.name, kind, algorithm]),
);

const p256 = signatureAlgorithms["EC-P256"][0] as SignatureAlgorithm;

async function keyPair({ importParameters }: SignatureAlgorithm): Promise<CryptoKeyPair> {
  const rsa = { modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]) };
  const parameters = { ...rsa, ...importParameters };
  return (await crypto.subtle.generateKey(parameters, true, ["sign", "verify"])) as CryptoKeyPair;
}

const spkiOf = async ({ publicKey }: CryptoKeyPair): Promise<Bytes> =>
  new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));

const pkcs8Of = async ({ privateKey }: CryptoKeyPair): Promise<Bytes> =>
  new Uint8Array(await crypto.subtle.exportKey("pkcs8", privateKey));

describe("node:crypto as a provider", () => {
  test.each(algorithms)("signs and verifies as WebCrypto does: %s of %s", async (_, __, each) => {
    const keys = await keyPair(each);
    const spki = await spkiOf(keys);
    const web = webSigningKey(keys.privateKey, each);
    const node = takeSigningKey(await pkcs8Of(keys), each);
    const { scalarOctets } = each;
    const signedByNode = (await node.sign(bytes)) as Bytes;
    const raw = new Uint8Array(await web.sign(bytes));
    const signedByWeb = scalarOctets === undefined ? raw : toX509Signature(raw, scalarOctets);
    for (const signature of [signedByNode, signedByWeb]) {
      for (const provider of [nodeCryptoProvider, webCryptoProvider]) {
        const taken = fromX509Signature(signature, each, provider.dsaEncoding);
        expect(await provider.verify(spki, each, taken, bytes)).toBe(true);
        expect(await provider.verify(spki, each, taken, other)).toBe(false);
      }
    }
  });

  test("refuses an invalid public key", async () => {
    const spki = await spkiOf(await keyPair(p256));
    const besideTheCurve = spki.with(-1, (spki.at(-1) ?? 0) ^ 1) as Bytes;
    for (const { verify: verifyOnce, dsaEncoding } of [nodeCryptoProvider, webCryptoProvider]) {
      const signature = dsaEncoding === "der" ? toX509Signature(bytes, 32) : bytes.slice(0, 64);
      for (const key of [
        besideTheCurve,
        spki.subarray(0, 40),
        new Uint8Array(),
        new Uint8Array(91),
      ]) {
        expect(await verifyOnce(key, p256, signature, bytes)).toBeUndefined();
      }
    }
  });
});

describe("a private key that node:crypto takes", () => {
  test("signs after its octets were overwritten with zeros", async () => {
    const keys = await keyPair(p256);
    const pkcs8 = await pkcs8Of(keys);
    const key = takeSigningKey(pkcs8, p256);
    expect(pkcs8).toEqual(new Uint8Array(pkcs8.length));
    const signature = (await key.sign(bytes)) as Bytes;
    const spki = Buffer.from(await spkiOf(keys));
    const publicKey = createPublicKey({ key: spki, format: "der", type: "spki" });
    expect(verify("sha256", bytes, publicKey, signature)).toBe(true);
  });

  test("is out of reach for code that holds its handle", async () => {
    const key = takeSigningKey(await pkcs8Of(await keyPair(p256)), p256);
    expect(await expectNothingExportable(key)).toEqual([]);
  });

  const pkcs8 = { type: "pkcs8", format: "der" } as const;
  const strangers: readonly (readonly [string, () => Buffer])[] = [
    ["a key of another curve", () => ec("P-384").export(pkcs8)],
    [
      "an RSA key",
      () => generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export(pkcs8),
    ],
    ["an Ed25519 key", () => generateKeyPairSync("ed25519").privateKey.export(pkcs8)],
    ["a public key", () => publicOctets()],
    ["a key cut short", () => ec("P-256").export(pkcs8).subarray(0, -1)],
    ["empty", () => Buffer.alloc(0)],
    ["all zeros", () => Buffer.alloc(138)],
  ];
  const ec = (namedCurve: string) => generateKeyPairSync("ec", { namedCurve }).privateKey;
  const publicOctets = () => createPublicKey(ec("P-256")).export({ type: "spki", format: "der" });

  test.each(strangers)(
    "is refused for P-256, and wiped all the same, when it is %s",
    (_, octets) => {
      const taken = new Uint8Array(octets());
      expect(() => takeSigningKey(taken, p256)).toThrow();
      expect(taken.every((octet) => octet === 0)).toBe(true);
    },
  );
});

describeOpenedKeys(nodeCryptoProvider, 0);
