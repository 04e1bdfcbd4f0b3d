import { base64url } from "jose";
import { describe, expect, test } from "vitest";
import { createJsonWebSignatureParser } from "../../../src/pki/jose/json-web-signature.ts";
import { encodePart } from "../../testkit/callers/tokens.ts";
import { refusalOf } from "../../testkit/refusal.ts";

const parseJsonWebSignature = createJsonWebSignatureParser();
const header = encodePart({ alg: "RS256", kid: "k1" });
const payload = encodePart({ iss: "https://issuer.test" });
const withHeader = (part: Record<string, unknown> | string) =>
  `${encodePart(part)}.${payload}.AAAA`;
const withPayload = (part: string) => `${header}.${encodePart(part)}.AAAA`;
const deep = (levels: number) => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;

describe("a compact JWS", () => {
  test("is taken apart", () => {
    expect(parseJsonWebSignature(`${header}.${payload}.AQID`)).toEqual({
      algorithm: "RS256",
      keyId: "k1",
      claims: { iss: "https://issuer.test" },
      signedBytes: new TextEncoder().encode(`${header}.${payload}`),
      signature: new Uint8Array([1, 2, 3]),
    });
  });

  test.each([
    ["no kid", { alg: "ES256" }],
    ["typ JWT", { alg: "ES256", typ: "JWT" }],
    ["typ jwt in lower case (RFC 7519 §5.1)", { alg: "ES256", typ: "jwt" }],
    ["b64 as it always is", { alg: "ES256", b64: true }],
    ["members nobody asked for", { alg: "ES256", jku: "https://evil.test", jwk: {}, x5u: "x" }],
  ])("may have a header with %s", (_, value) => {
    expect(parseJsonWebSignature(withHeader(value)).algorithm).toBe("ES256");
  });

  test("keeps a claim named __proto__ out of the prototype", () => {
    const { iss } = parseJsonWebSignature(withPayload('{"__proto__":{"iss":"x"}}')).claims;
    expect(iss).toBeUndefined();
  });

  test("may nest its claims deeply", () => {
    expect(parseJsonWebSignature(withPayload(deep(1000))).claims).toHaveProperty("a");
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
    [
      "claims that are not UTF-8",
      `${header}.${base64url.encode(new Uint8Array([0x7b, 0xff]))}.AAAA`,
    ],
    ["overlong UTF-8", `${header}.${base64url.encode(new Uint8Array([0xc1, 0xbb, 0x7d]))}.AAAA`],
  ])("is refused with %s", async (_, token) => {
    const refusal = await refusalOf(() => parseJsonWebSignature(token));
    expect(refusal).toEqual({ reason: "credential-rejected", check: "form" });
  });

  test("is refused without its text in the message", () => {
    const secret = "c2VjcmV0LXNlY3JldA";
    const parse = () => parseJsonWebSignature(`${header}.${secret}.AAAA`);
    expect(parse).toThrow(
      expect.not.objectContaining({ message: expect.stringContaining("secret") }),
    );
  });
});
