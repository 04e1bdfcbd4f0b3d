import { exportJWK, type JWK } from "jose";
import { expect } from "vitest";
import { Configuration } from "../../src/config/configuration.ts";
import type { IssuerTable } from "../../src/config/issuer-table.ts";
import { ConfigurationError } from "../../src/foundation/errors.ts";
import { createTokenKey, jwksOf } from "./callers/tokens.ts";

export type Values = Readonly<Record<string, unknown>>;

export const day = 86_400;
export const issuer = "https://a.test";

/** An issuer whose keys are here, so that a CA need not fetch them to be ready. Nobody has the private key. */
export const issuerWithKeys = {
  issuer,
  jwks: {
    keys: [
      {
        kty: "EC",
        crv: "P-256",
        kid: "a",
        x: "1Rou4V6MiCdgDbsRV54DwclIw8SFn1EKYnRNuTFT6tM",
        y: "WhJsYr4aWwxHsmpwatrb56ILxdzIArA52hCrPhCUOM4",
      },
    ],
  },
};

const tenantBeside = "https://beside.test";

/**
 * The tables with one of another tenant: the accounts, namespaces, nodes and rights of the first are its own as well.
 * Nobody has a token of it.
 */
export function withTenantBeside(tables: readonly object[]): readonly object[] {
  if (tables.some((table) => Object(table).issuer === tenantBeside)) return tables;
  const { jwks } = issuerWithKeys;
  const own = { issuer: tenantBeside, cluster: "beside", jwks, jwks_uri: undefined };
  const { kubernetes: _, ...first } = { kubernetes: undefined, ...tables[0] };
  const claims = { node_checks: undefined, node_reach: "anywhere" };
  return [
    ...tables,
    withoutUndefined({ ...first, ...own, ...("trusted_node_accounts" in first && claims) }),
  ];
}

const withoutUndefined = (members: object): object =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));

/** An entry of `KEK` with this id. */
export const randomKek = (id = "k1"): string =>
  `${id}:${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`;

const complete: Values = { ISSUERS: [{ issuer }], KEK: randomKek("2026-11") };

/** A correct configuration, except for these values. */
export const configurationOf = (changes: Values): Configuration =>
  Configuration.parse({ ...complete, ...changes });

export const issuersOf = (...tables: readonly unknown[]): readonly IssuerTable[] =>
  configurationOf({ ISSUERS: tables }).issuers;

export function faultsOf(changes: Values): readonly string[] {
  try {
    configurationOf(changes);
  } catch (error) {
    if (error instanceof ConfigurationError) return error.faults;
    throw error;
  }
  throw new Error("nothing was wrong");
}

/** Expects one fault, with its place and a reason. A key that is present must not be called missing. */
export function expectOneFault(changes: Values, place: string): void {
  const faults = faultsOf(changes);
  expect(faults).toEqual([expect.stringMatching(/^[^\n]+$/)]);
  expect(faults[0]?.split(": ")[0]).toBe(place);
  expect(faults[0]).not.toMatch(/is required$|: has a form that is not known$/);
}

/** One key as a JWK Set, with its private member and without. */
export async function createKeySets(): Promise<
  Record<"publicKeys" | "privateKeys", { keys: JWK[] }>
> {
  const key = await createTokenKey("ES256", "k1");
  const privateJwk = { ...(await exportJWK(key.privateKey)), kid: "k1" };
  return { publicKeys: jwksOf(key), privateKeys: { keys: [privateJwk] } };
}
