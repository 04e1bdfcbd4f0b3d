import { expect, test } from "vitest";
import { ClientError } from "../../src/client/internal/client-error.ts";
import { parseTrustBundle } from "../../src/client/internal/trust-bundle.ts";

const root = { use: "x509-svid", x5c: ["AAAA"] };

test.each([
  [undefined, 300],
  [0, 10],
  [11, 11],
  [86_400, 3600],
])("a hint of %s seconds has the bundle asked for in %d", (spiffe_refresh_hint, seconds) => {
  expect(parseTrustBundle({ keys: [root], spiffe_refresh_hint })).toMatchObject({
    refreshHintSeconds: seconds,
    sequence: 0,
  });
});

test("keys for tokens have no use that a library does not know", () => {
  const { jwks } = parseTrustBundle({ keys: [root, { use: "jwt-svid", kid: "a" }] });
  expect(jwks).toEqual({ keys: [{ kid: "a" }] });
});

test.each<[string, unknown]>([
  ["no root", { keys: [{ use: "jwt-svid", x5c: ["AAAA"] }] }],
  ["a root of two certificates", { keys: [{ ...root, x5c: ["AAAA", "AAAA"] }] }],
  ["a root without one", { keys: [root, { use: "x509-svid" }] }],
  ["a root that is no base64", { keys: [{ ...root, x5c: ["-"] }] }],
  ["no keys", {}],
])("a bundle with %s is refused", (_, document) => {
  expect(() => parseTrustBundle(document)).toThrow(ClientError);
});
