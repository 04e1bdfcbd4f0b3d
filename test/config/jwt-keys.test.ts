import { expect, test } from "vitest";
import { configurationOf, expectOneFault, issuerWithKeys } from "../testkit/configuration.ts";

const JWT_ISSUER = "https://ca.example.com";
const ISSUERS = [{ ...issuerWithKeys, jwt_audiences: ["sts.amazonaws.com"] }];

test("nobody gets a token without an issuer of tokens", () => {
  expect(configurationOf({}).tokens).toBeUndefined();
});

test("an issuer alone is enough, with the usual lives", () => {
  expect(configurationOf({ JWT_ISSUER, ISSUERS }).tokens).toEqual({
    issuer: JWT_ISSUER,
    algorithm: "ES256",
    defaultSeconds: 300,
    maximumSeconds: 3600,
  });
  expect(configurationOf({ JWT_ISSUER, ISSUERS, MAX_JWT_TTL: "2m" }).tokens).toMatchObject({
    defaultSeconds: 120,
  });
});

test("says at the start that nobody may have a token", () => {
  expect(configurationOf({ JWT_ISSUER }).warnings).toContainEqual(
    expect.stringContaining("until a table of ISSUERS has jwt_audiences"),
  );
});

test.each([
  ["JWT_ISSUER", { JWT_ISSUER: "http://ca.example.com" }],
  ["JWT_ISSUER", { JWT_ISSUER: "https://ca.example.com/" }],
  ["JWT_ISSUER", { JWT_ISSUER: "https://ca.example.com?a=b" }],
  ["JWT_ISSUER", { JWT_ISSUER: "https://ca.example.com/:tenant" }],
  ["JWT_ISSUER", { JWT_ISSUER: "https://u:p@ca.example.com" }],
  ["JWT_ISSUER", { JWT_ISSUER: "https://ca.example.com/a/../b" }],
  ["JWT_ALGORITHM", { JWT_ISSUER, JWT_ALGORITHM: "EdDSA" }],
  ["MAX_JWT_TTL", { JWT_ISSUER, MAX_JWT_TTL: "61m" }],
  ["MAX_JWT_TTL", { JWT_ISSUER, MAX_JWT_TTL: "0s" }],
  ["DEFAULT_JWT_TTL", { JWT_ISSUER, MAX_JWT_TTL: "5m", DEFAULT_JWT_TTL: "6m" }],
  ["ISSUERS[0].jwt_audiences", { ISSUERS }],
  ["ISSUERS[0].jwt_audiences", { JWT_ISSUER, ISSUERS: [{ ...issuerWithKeys, jwt_audiences: [] }] }],
  ["ISSUERS[0].issuer", { JWT_ISSUER, ISSUERS: [{ ...issuerWithKeys, issuer: JWT_ISSUER }] }],
  ["ISSUERS[0].issuer", { JWT_ISSUER, ISSUERS: [{ ...issuerWithKeys, issuer: `${JWT_ISSUER}/` }] }],
])("refuses a wrong %s: %j", (place, values) => {
  expectOneFault(values, place);
});
