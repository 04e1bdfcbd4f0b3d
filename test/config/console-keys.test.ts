import { expect, test } from "vitest";
import { configurationOf, expectOneFault } from "../testkit/configuration.ts";

const token = "a".repeat(32);
const digest = "0123456789abcdef".repeat(4);
const access = { team: "https://example.cloudflareaccess.com", audience: "f8a5".repeat(16) };

test("nobody is let in without a key", () => {
  expect(configurationOf({}).console).toBeUndefined();
});

test("tokens and digests of tokens stand beside each other", () => {
  const { console } = configurationOf({ CONSOLE_TOKENS: `${token}, sha256:${digest}` });
  expect(console).toEqual({ tokens: [{ token }, { sha256: digest }], access: undefined });
});

test("an application of Access is a table, or its JSON", () => {
  for (const CONSOLE_ACCESS of [access, JSON.stringify(access)]) {
    expect(configurationOf({ CONSOLE_ACCESS }).console).toEqual({ tokens: [], access });
  }
});

test.each([
  ["CONSOLE_ACCESS.team", { ...access, team: "http://example.cloudflareaccess.com" }],
  ["CONSOLE_ACCESS.team", { ...access, team: "https://example.cloudflareaccess.com/" }],
  ["CONSOLE_ACCESS.team", { ...access, team: "https://user@example.com" }],
  ["CONSOLE_ACCESS.audience", { ...access, audience: "" }],
  ["CONSOLE_ACCESS.domain", { ...access, domain: "x" }],
])("refuses %s: %j", (place, value) => {
  expectOneFault({ [place.split(".")[0] ?? ""]: value }, place);
});

test("a token is not in the sentence about it", () => {
  expect(() => configurationOf({ CONSOLE_TOKENS: `sha256:${token}` })).toThrow(
    expect.not.objectContaining({ message: expect.stringContaining(token) }),
  );
});
