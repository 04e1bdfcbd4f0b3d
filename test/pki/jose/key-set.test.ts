import { generateKeyPairSync, type KeyObject } from "node:crypto";
import type { JWK } from "jose";
import { beforeAll, describe, expect, test } from "vitest";
import { type JwsAlgorithm, KeySet } from "../../../src/pki/jose/key-set.ts";

let rsa: JWK;
let rsa1024: JWK;
let p256: JWK;
let ed25519: JWK;
let p256PrivateJwk: JWK;

const jwkOf = (key: KeyObject): JWK => key.export({ format: "jwk" }) as JWK;

beforeAll(() => {
  rsa = jwkOf(generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey);
  rsa1024 = jwkOf(generateKeyPairSync("rsa", { modulusLength: 1024 }).publicKey);
  const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
  p256 = jwkOf(pair.publicKey);
  p256PrivateJwk = jwkOf(pair.privateKey);
  ed25519 = jwkOf(generateKeyPairSync("ed25519").publicKey);
});

const algorithmsOf = (keys: KeySet | undefined): (readonly JwsAlgorithm[])[] =>
  keys?.map(({ algorithms }) => algorithms) ?? [];

describe("a key of a JWK Set", () => {
  test("decides which algorithms it may verify", () => {
    expect(algorithmsOf(KeySet.parse({ keys: [rsa, p256, ed25519] }))).toEqual([
      ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
      ["ES256"],
      ["EdDSA"],
    ]);
  });

  test("may narrow them with its own alg, use and key_ops", () => {
    const keys = [{ ...rsa, alg: "PS384", use: "sig", key_ops: ["verify"] }];
    expect(algorithmsOf(KeySet.parse({ keys }))).toEqual([["PS384"]]);
  });

  test("may be one of a SPIFFE bundle, where the keys of tokens have a use of their own", () => {
    const { x, y } = p256;
    const root = { kty: "EC", crv: "P-256", x, y, use: "x509-svid", x5c: ["AAAA"] };
    const keys = [root, { ...p256, kid: "a", use: "jwt-svid" }];
    const bundle = { keys, spiffe_sequence: 1, spiffe_refresh_hint: 2 };
    expect(KeySet.parse(bundle)?.map(({ keyId }) => keyId)).toEqual(["a"]);
    expect(KeySet.unusable(bundle)).toEqual([]);
    expect(KeySet.parse({ keys: [root] })).toBeUndefined();
  });

  test("keeps only its public members, even when an issuer publishes the private ones", () => {
    const [key] = KeySet.parse({ keys: [p256PrivateJwk] }) ?? [];
    const { kty, crv, x, y } = p256PrivateJwk;
    expect(key?.jwk).toEqual({ kty, crv, x, y });
  });

  const passedOver: readonly [string, () => unknown][] = [
    ["for encryption", () => ({ ...rsa, use: "enc" })],
    ["with another use", () => ({ ...rsa, use: "x509-svid" })],
    ["for other operations", () => ({ ...rsa, key_ops: ["encrypt", "wrapKey"] })],
    ["for no operation", () => ({ ...rsa, key_ops: [] })],
    ["whose alg is not one of its kind", () => ({ ...rsa, alg: "ES256" })],
    ["whose alg is symmetric", () => ({ ...rsa, alg: "HS256" })],
    ["whose alg is none", () => ({ ...rsa, alg: "none" })],
    ["whose alg is for encryption", () => ({ ...rsa, alg: "RSA-OAEP" })],
    ["of 1024 bits", () => rsa1024],
    [
      "of 1024 bits, dressed up with zeros to more than 2048",
      () => ({ ...rsa1024, n: widened(rsa1024.n) }),
    ],
    ["of 16384 bits", () => ({ ...rsa, n: rsa.n?.repeat(8) })],
    ["without a modulus", () => ({ ...rsa, n: undefined })],
    ["with the exponent 1, which anybody can sign for", () => ({ ...rsa, e: "AQ" })],
    ["with an even exponent", () => ({ ...rsa, e: "AQAA" })],
    ["that is a secret", () => ({ kty: "oct", k: "AAAA", alg: "HS256" })],
    ["of a curve nobody uses here", () => ({ ...p256, crv: "secp256k1" })],
    ["for key agreement", () => ({ ...ed25519, crv: "X25519" })],
    ["without a curve", () => ({ ...p256, crv: undefined })],
    ["of no kind", () => ({ ...p256, kty: undefined })],
    ...["constructor", "toString", "valueOf", "hasOwnProperty", "__proto__"].flatMap(
      (kty): [string, () => unknown][] => [
        [`of the kind ${kty}, which every object has`, () => ({ kty })],
        [`of the kind ${kty} with an alg`, () => ({ kty, alg: "ES256" })],
        [`of the kind ${kty} with a curve`, () => ({ ...p256, kty })],
      ],
    ),
    ["with an id without end", () => ({ ...p256, kid: "k".repeat(257) })],
    ["with a number for an id", () => ({ ...p256, kid: 1 })],
    ["that is null", () => null],
    ["that is text", () => "RSA"],
  ];

  test.each(passedOver)("is ignored %s", (_, key) => {
    expect(KeySet.parse({ keys: [key()] })).toBeUndefined();
    expect(algorithmsOf(KeySet.parse({ keys: [key(), ed25519] }))).toEqual([["EdDSA"]]);
  });

  test.each(["constructor", "toString", "__proto__", "oct"])(
    "of the kind %s is reported as unusable",
    (kty) => {
      const fault = `a key of the kind ${kty} is not supported`;
      expect(KeySet.unusable({ keys: [{ kty }] })).toEqual([`-: ${fault}`]);
    },
  );

  function widened(modulus = ""): string {
    const octets = Buffer.from(modulus, "base64url");
    return Buffer.concat([Buffer.alloc(260 - octets.length), octets]).toString("base64url");
  }
});

describe("a JWK Set", () => {
  const [none, empty] = ["no JWK Set", "a JWK Set without a usable key for signatures"];
  test.each<[string, unknown, string]>([
    ["nothing", undefined, none],
    ["null", null, none],
    ["text", '{"keys":[]}', none],
    ["a list of keys", [], none],
    ["an object without keys", {}, none],
    ["keys that are no list", { keys: {} }, none],
    ["an empty list", { keys: [] }, empty],
    ["a key for nothing", { keys: [{ kty: "oct" }] }, empty],
    [
      "101 keys",
      { keys: Array.from({ length: 101 }, () => ({ kty: "OKP", crv: "Ed25519", x: "AA" })) },
      "a JWK Set of 101 keys, of 100 at most",
    ],
  ])("is not %s", (_, json, fault) => {
    expect(KeySet.parse(json)).toBeUndefined();
    expect(KeySet.fault(json)).toBe(fault);
  });

  test("may hold 100 keys and other members", () => {
    const keys = Array.from({ length: 100 }, (_, i) => ({ ...ed25519, kid: `k${i}` }));
    const parsed = KeySet.parse({ keys, spiffe_sequence: 1 }) ?? [];
    expect(parsed).toHaveLength(100);
    expect(KeySet.candidates(parsed, "EdDSA", "k99")).toEqual([parsed[99]]);
    // A token that names none must not cause a hundred verifications.
    expect(KeySet.candidates(parsed, "EdDSA", undefined)).toHaveLength(32);
  });

  test("has candidates by algorithm and key id", () => {
    const keys =
      KeySet.parse({ keys: [{ ...p256, kid: "a" }, { ...rsa, kid: "a" }, ed25519] }) ?? [];
    expect(KeySet.candidates(keys, "ES256", "a")).toEqual([keys[0]]);
    expect(KeySet.candidates(keys, "PS256", "a")).toEqual([keys[1]]);
    expect(KeySet.candidates(keys, "EdDSA", undefined)).toEqual([keys[2]]);
    expect(KeySet.candidates(keys, "EdDSA", "a")).toEqual([]);
    expect(KeySet.candidates(keys, "ES256", "b")).toEqual([]);
    expect(KeySet.candidates(keys, "HS256", undefined)).toEqual([]);
  });
});
