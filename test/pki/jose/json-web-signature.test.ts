import { constants, generateKeyPairSync, type KeyPairKeyObjectResult, sign } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { CaError } from "../../../src/foundation/errors.ts";
import { importedKey, JsonWebSignature } from "../../../src/pki/jose/json-web-signature.ts";
import { type JwsAlgorithm, KeySet } from "../../../src/pki/jose/key-set.ts";
import { toX509Signature } from "../../../src/pki/signature-writer.ts";
import { encodePart } from "../../testkit/callers/tokens.ts";
import { expectNothingExportable } from "../../testkit/reachable-keys.ts";
import { refusalOf } from "../../testkit/refusal.ts";

const header = encodePart({ alg: "RS256", kid: "k1" });
const payload = encodePart({ iss: "https://issuer.test" });
const withHeader = (part: Record<string, unknown> | string) =>
  `${encodePart(part)}.${payload}.AAAA`;
const base64Url = (octets: Uint8Array | number[]) => Buffer.from(octets).toString("base64url");
const withPayload = (part: string) => `${header}.${encodePart(part)}.AAAA`;
const deep = (levels: number) => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;

describe("a compact JWS", () => {
  test("is taken apart", () => {
    const compact = `${header}.${payload}.AQID`;
    expect(JsonWebSignature.parse(compact)).toEqual({
      compact,
      algorithm: "RS256",
      keyId: "k1",
      claims: { iss: "https://issuer.test" },
      signatureLength: 3,
    });
  });

  test.each([
    ["no kid", { alg: "ES256" }],
    ["typ JWT", { alg: "ES256", typ: "JWT" }],
    ["typ jwt in lower case (RFC 7519 §5.1)", { alg: "ES256", typ: "jwt" }],
    ["b64 as it always is", { alg: "ES256", b64: true }],
    ["members nobody asked for", { alg: "ES256", jku: "https://evil.test", jwk: {}, x5u: "x" }],
  ])("may have a header with %s", (_, value) => {
    expect(JsonWebSignature.parse(withHeader(value)).algorithm).toBe("ES256");
  });

  test("keeps a claim named __proto__ out of the prototype", () => {
    const { iss } = JsonWebSignature.parse(withPayload('{"__proto__":{"iss":"x"}}')).claims;
    expect(iss).toBeUndefined();
  });

  test("may nest its claims deeply", () => {
    expect(JsonWebSignature.parse(withPayload(deep(1000))).claims).toHaveProperty("a");
  });

  test.each([
    ["nothing", ""],
    ["one part", header],
    ["two parts", `${header}.${payload}`],
    ["an empty signature", `${header}.${payload}.`],
    ["four parts", `${header}.${payload}.AAAA.AAAA`],
    ["five parts, as encryption has", `${header}.AAAA.AAAA.AAAA.AAAA`],
    ["an empty fourth part", `${header}.${payload}.AAAA.`],
    ["an empty header", `.${payload}.AAAA`],
    ["an empty payload (detached)", `${header}..AAAA`],
    ["JSON serialization", `{"payload":"${payload}","protected":"${header}","signature":"AAAA"}`],
    ["padded base64url", `${header}.${payload}.AQ==`],
    ["the alphabet of standard base64", `${header}.${payload}.+/AA`],
    ["white space", `${header}.${payload}.AA\nAA`],
    ["a leading space", ` ${header}.${payload}.AAAA`],
    ["base64url of an impossible length", `${header}.${payload}.AAAAA`],
    ["base64url with bits to spare", `${header}.${payload}.AB`],
    ["characters beyond ASCII", `${header}.${payload}.AAAé`],
    ["a header that is an array", `${encodePart('["alg","RS256"]')}.${payload}.AAAA`],
    ["a header that is null", `${encodePart("null")}.${payload}.AAAA`],
    ["a header that is text", `${encodePart('"alg"')}.${payload}.AAAA`],
    ["a header that is no JSON", `${encodePart("{alg:RS256}")}.${payload}.AAAA`],
    ["a header with a byte order mark", `${encodePart('\ufeff{"alg":"RS256"}')}.${payload}.AAAA`],
    ["a header without alg", withHeader({ kid: "k1" })],
    ["an alg that is a list", withHeader({ alg: ["RS256"] })],
    ["an alg that is null", withHeader({ alg: null })],
    ["a kid that is a number", withHeader({ alg: "RS256", kid: 1 })],
    ["a kid that is null", withHeader({ alg: "RS256", kid: null })],
    ["crit", withHeader({ alg: "RS256", crit: ["exp"], exp: 1 })],
    ["an empty crit", withHeader({ alg: "RS256", crit: [] })],
    ["crit that is null", withHeader({ alg: "RS256", crit: null })],
    [
      "an unencoded payload (b64, RFC 7797)",
      withHeader({ alg: "RS256", b64: false, crit: ["b64"] }),
    ],
    ["an unencoded payload without crit", withHeader({ alg: "RS256", b64: false })],
    ["b64 that is no boolean", withHeader({ alg: "RS256", b64: 1 })],
    ["alg twice", withHeader('{"alg":"RS256","alg":"ES256"}')],
    ["alg twice, once in other letters", withHeader('{"alg":"RS256","\\u0061lg":"RS256"}')],
    ["a member twice that nobody asked for", withHeader('{"alg":"RS256","x":1,"x":1}')],
    ["a claim with an escape in its name", withPayload('{"\\u0069ss":"a"}')],
    ["iss twice", withPayload('{"iss":"a","iss":"b"}')],
    ["sub twice, alike", withPayload('{"sub":"a","aud":[],"sub":"a"}')],
    ["exp twice, once in other letters", withPayload('{"exp":1,"ex\\u0070":2}')],
    ["__proto__ twice", withPayload('{"__proto__":1,"__proto__":2}')],
    ["a pod twice", withPayload('{"kubernetes.io":{"pod":{},"pod":{}}}')],
    ["a name twice within a list", withPayload('{"a":[{"b":[{"n":1,"n":1}]}]}')],
    ["typ of an access token", withHeader({ alg: "RS256", typ: "at+jwt" })],
    ["typ of a logout token", withHeader({ alg: "RS256", typ: "logout+jwt" })],
    ["an empty typ", withHeader({ alg: "RS256", typ: "" })],
    ["a typ that is a number", withHeader({ alg: "RS256", typ: 1 })],
    ["a typ that is null", withHeader({ alg: "RS256", typ: null })],
    ["claims that are an array", withPayload('[{"iss":"x"}]')],
    ["claims that are text", withPayload('"iss"')],
    ["claims that are null", withPayload("null")],
    ["claims that are no JSON", withPayload("iss=x")],
    ["claims that end early", withPayload('{"iss":"x"')],
    ["claims with bytes after them", withPayload('{"iss":"x"}{}')],
    ["a nested token as claims", withPayload(`${header}.${payload}.AAAA`)],
    ["claims of 100,000 arrays", withPayload(`${"[".repeat(100_000)}${"]".repeat(100_000)}`)],
    ["claims that are not UTF-8", `${header}.${base64Url([0x7b, 0xff])}.AAAA`],
    ["overlong UTF-8", `${header}.${base64Url([0xc1, 0xbb, 0x7d])}.AAAA`],
  ])("is refused with %s", async (_, token) => {
    const refusal = await refusalOf(() => JsonWebSignature.parse(token));
    expect(refusal).toEqual({ reason: "credential-rejected", check: "form" });
  });

  test("is refused without its text in the message", () => {
    const secret = "c2VjcmV0LXNlY3JldA";
    const parse = () => JsonWebSignature.parse(`${header}.${secret}.AAAA`);
    expect(parse).toThrow(
      expect.not.objectContaining({ message: expect.stringContaining("secret") }),
    );
  });
});

const ec = (namedCurve: string) => () => generateKeyPairSync("ec", { namedCurve });
const rsaKeys = [1, 2].map(() => generateKeyPairSync("rsa", { modulusLength: 2048 }));
let taken = 0;
/** One of two keys in turn, which are slow to find. */
const rsa = () => rsaKeys[taken++ % 2] as KeyPairKeyObjectResult;

/** How `node:crypto`, which judges jose here, makes the key of each algorithm. */
const keyPairs: Readonly<Record<JwsAlgorithm, () => KeyPairKeyObjectResult>> = {
  RS256: rsa,
  RS384: rsa,
  RS512: rsa,
  PS256: rsa,
  PS384: rsa,
  PS512: rsa,
  ES256: ec("P-256"),
  ES384: ec("P-384"),
  ES512: ec("P-521"),
  EdDSA: () => generateKeyPairSync("ed25519"),
};

interface Signer {
  readonly key: KeySet[number];
  readonly sign: (text: string) => Uint8Array<ArrayBuffer>;
}

function createSigner(algorithm: JwsAlgorithm): Signer {
  const { publicKey, privateKey: key } = keyPairs[algorithm]();
  const [published] = KeySet.parse({ keys: [publicKey.export({ format: "jwk" })] }) ?? [];
  if (!published) throw new Error("no key");
  const bits = Number(algorithm.slice(2)) || undefined;
  const pss = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: (bits ?? 0) / 8 };
  const options = algorithm.startsWith("PS") ? { key, ...pss } : { key };
  const digest = bits === undefined ? null : `sha${bits}`;
  return {
    key: published,
    sign: (text) =>
      new Uint8Array(sign(digest, Buffer.from(text), { ...options, dsaEncoding: "ieee-p1363" })),
  };
}

async function verdict(keys: readonly KeySet[number][], signed: string, signature: Uint8Array) {
  const jws = JsonWebSignature.parse(`${signed}.${base64Url(signature)}`);
  return JsonWebSignature.requireSignature(jws, () => keys, new Date(0)).then(
    () => "accepted",
    ({ refusal }: CaError) => (refusal.reason === "credential-rejected" ? refusal.check : refusal),
  );
}

describe("the signature of a token", () => {
  test.each(Object.keys(keyPairs) as JwsAlgorithm[])(
    "of %s is judged as node:crypto made it",
    async (algorithm) => {
      const signer = createSigner(algorithm);
      const other = createSigner(algorithm);
      const signed = `${encodePart({ alg: algorithm })}.${payload}`;
      const signature = signer.sign(signed);
      expect(await verdict([signer.key], signed, signature)).toBe("accepted");
      expect(await verdict([other.key, signer.key], signed, signature)).toBe("accepted");
      const elsewhere = `${encodePart({ alg: algorithm })}.${encodePart({ iss: "https://b.test" })}`;
      for (const [keys, text, made] of [
        [[other.key], signed, signature],
        [[signer.key], elsewhere, signature],
        [[signer.key], signed, signature.with(3, (signature[3] ?? 0) ^ 1)],
        [[signer.key], signed, signature.subarray(1)],
        [[signer.key], signed, new Uint8Array([0, ...signature])],
        [[signer.key], signed, new Uint8Array(signature.length)],
      ] as const) {
        expect(await verdict(keys, text, made)).toBe("signature");
      }
    },
  );

  test("is wrong, whichever key of the issuer cannot be imported", async () => {
    const [{ key }, own] = [createSigner("ES256"), createSigner("ES256")];
    const { sign } = own;
    const broken = { ...key, jwk: { ...key.jwk, x: key.jwk.y ?? "" } };
    const signed = `${encodePart({ alg: "ES256" })}.${payload}`;
    for (const keys of [
      [key, broken],
      [broken, key],
    ])
      expect(await verdict(keys, signed, sign(signed))).toBe("signature");
    expect(await verdict([broken, own.key], signed, sign(signed))).toBe("accepted");
    expect(await verdict([broken], signed, sign(signed))).toBe("key");
  });

  // About one signature in 256 begins with a zero.
  test.each<JwsAlgorithm>(["RS256", "PS256"])(
    "of %s is refused without its leading zero",
    async (algorithm) => {
      const { key, sign } = createSigner(algorithm);
      let [signed, signature] = ["", new Uint8Array([1])];
      for (let i = 0; signature[0] !== 0; i++) {
        signed = `${encodePart({ alg: algorithm })}.${encodePart({ i })}`;
        signature = sign(signed);
      }
      expect(await verdict([key], signed, signature)).toBe("accepted");
      expect(await verdict([key], signed, signature.subarray(1))).toBe("signature");
    },
  );

  test("of ES256 is refused in the encoding of X.509", async () => {
    const { key, sign } = createSigner("ES256");
    const signed = `${encodePart({ alg: "ES256" })}.${payload}`;
    expect(await verdict([key], signed, toX509Signature(sign(signed), 32))).toBe("signature");
  });
});

describe("a key of an issuer", () => {
  test("is imported once for each algorithm, as a public key that nothing can export", async () => {
    const { key } = createSigner("RS256");
    const imported = await importedKey(key, "RS256");
    expect(imported).toBeDefined();
    expect(await importedKey(key, "RS256")).toBe(imported);
    expect(await importedKey(key, "PS256")).not.toBe(imported);
    for (const { type, usages } of await expectNothingExportable({ key, imported })) {
      expect([type, ...usages]).toEqual(["public", "verify"]);
    }
  });

  test("is not imported for an algorithm of another kind of key", async () => {
    const { key } = createSigner("RS256");
    expect(await importedKey(key, "ES256")).toBeUndefined();
    expect(await importedKey(key, "EdDSA")).toBeUndefined();
  });
});
