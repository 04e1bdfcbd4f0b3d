import { describe, expect, test } from "vitest";
import type { Authorities } from "../../src/ca/authorities.ts";
import { namedSigners } from "../../src/config/named-signers.ts";
import type { SignerTable } from "../../src/config/signer-table.ts";
import type { ServiceAccount } from "../../src/pki/spiffe-id.ts";
import { trustedIssuerWithoutKeys } from "../testkit/callers/trusted-issuers.ts";
import { proved, workload } from "../testkit/pki/certificates.ts";

const authorities: Authorities = {
  at: () => Promise.reject(new Error("no test looks at the authorities")),
  renew: async () => {},
};

const table = (name: string, ...callers: SignerTable["callers"]): SignerTable => ({
  name,
  authority_key: "EC-P256",
  callers,
});

const everybody = { namespaces: ["*"], accounts: ["*"] };
const cluster = "https://a.test";

/** Whether a caller of this issuer may use the signer for the account; without an issuer, one with a certificate. */
function mayUse(signer: SignerTable, issuer: string | undefined, account: ServiceAccount) {
  const named = namedSigners([signer], new Map([[signer.name, authorities]])).get(signer.name);
  const vouching = issuer === undefined ? undefined : trustedIssuerWithoutKeys(issuer);
  const spiffeId = workload(account.namespace, account.name);
  return named?.mayUse({ spiffeId, account, proof: proved, issuer: vouching }, account);
}

const shop = { namespace: "shop", name: "cart" };

describe("a named signer", () => {
  test("has the authorities of its own store", () => {
    const own: Authorities = { ...authorities };
    const stores = new Map([
      ["a", authorities],
      ["b", own],
    ]);
    const signers = namedSigners([table("a"), table("b")], stores);
    expect([...signers.keys()]).toEqual(["a", "b"]);
    expect(signers.get("b")?.authorities).toBe(own);
  });

  test("does not exist where the platform does not store it", () => {
    expect(namedSigners([table("a"), table("b")], new Map([["b", authorities]])).has("a")).toBe(
      false,
    );
    expect(namedSigners([table("a")], new Map())).toEqual(new Map());
  });

  test("does not exist without its table, whatever is stored", () => {
    expect(namedSigners([], new Map([["a", authorities]]))).toEqual(new Map());
  });

  test.each([
    ["of its issuer", { issuer: cluster, ...everybody }, cluster, true],
    ["of its namespace", { issuer: cluster, namespaces: ["sh*"], accounts: ["*"] }, cluster, true],
    ["with its name", { issuer: cluster, namespaces: ["*"], accounts: ["cart"] }, cluster, true],
    ["of another issuer", { issuer: cluster, ...everybody }, "https://b.test", false],
    ["of an issuer that begins alike", { issuer: cluster, ...everybody }, `${cluster}/`, false],
    ["of a certificate", { issuer: cluster, ...everybody }, undefined, false],
    ["elsewhere", { issuer: cluster, namespaces: ["db"], accounts: ["*"] }, cluster, false],
    ["by another name", { issuer: cluster, namespaces: ["*"], accounts: ["car"] }, cluster, false],
  ] as const)("serves an account %s: %j, %s → %s", (_, callers, issuer, may) => {
    expect(mayUse(table("a", callers), issuer, shop)).toBe(may);
  });

  test("serves nobody without a rule, and mixes no two rules", () => {
    const [inShop, carts] = [
      { issuer: cluster, namespaces: ["shop"], accounts: ["till"] },
      { issuer: cluster, namespaces: ["db"], accounts: ["cart"] },
    ];
    expect(mayUse(table("a"), cluster, shop)).toBe(false);
    expect(mayUse(table("a", inShop, carts), cluster, shop)).toBe(false);
  });
});
