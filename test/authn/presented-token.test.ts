import { describe, expect, test } from "vitest";
import { parseBearerToken, quoted } from "../../src/authn/token-authenticator.ts";
import { refusalOf } from "../testkit/refusal.ts";

function authorization(...values: readonly string[]): string | null {
  const headers = new Headers();
  for (const value of values) headers.append("authorization", value);
  return headers.get("authorization");
}

test("of an unverified claim a log line has 80 characters, and nothing of what is no text", () => {
  expect(quoted("\n".repeat(100))).toBe(`"${"\\n".repeat(80)}"`);
  expect(quoted({ toString: () => "x" })).toBe("not a text");
});

describe("the bearer token of a request", () => {
  test.each([
    ["the only value", ["Bearer tok"], "tok"],
    ["after another scheme (istiod's TestExtractBearerToken)", ["Basic x", "Bearer tok"], "tok"],
    ["before another scheme", ["Bearer tok", "Basic eDp5"], "tok"],
    ["beside a lower-case one, which is another scheme", ["bearer other", "Bearer tok"], "tok"],
    ["between white space", ["  Bearer tok  "], "tok"],
    ["of the longest length", [`Bearer ${"a".repeat(16_384)}`], "a".repeat(16_384)],
  ])("is found: %s", (_, values, token) => {
    expect(parseBearerToken(authorization(...values))).toBe(token);
  });

  test.each<[string, string[]]>([
    ["no header", []],
    ["an empty header", [""]],
    ["Basic alone", ["Basic x"]],
    ["lower-case bearer", ["bearer tok"]],
    ["upper-case bearer", ["BEARER tok"]],
    ["no space after the scheme", ["Bearertok"]],
    ["a tab after the scheme", ["Bearer\ttok"]],
    ["nothing after the scheme", ["Bearer "]],
    ["Istio's own scheme, which only its debug endpoints take", ["Istio tok"]],
    ["a longer scheme", ["XBearer tok"]],
  ])("is missing with %s", async (_, values) => {
    const refusal = await refusalOf(() => parseBearerToken(authorization(...values)));
    expect(refusal).toEqual({ reason: "credential-missing" });
  });

  test.each([
    ["two of them", ["Bearer one", "Bearer two"]],
    ["the same one twice", ["Bearer one", "Bearer one"]],
    ["two of them in one value", ["Bearer one,Bearer two"]],
    ["two of them with another scheme between", ["Bearer one", "Basic x", "Bearer two"]],
    ["one octet too many", [`Bearer ${"a".repeat(16_385)}`]],
    ["a megabyte", [`Bearer ${"a".repeat(1_000_000)}`]],
  ])("is refused with %s", async (_, values) => {
    const refusal = await refusalOf(() => parseBearerToken(authorization(...values)));
    expect(refusal).toEqual({ reason: "credential-rejected", check: "form" });
  });
});
