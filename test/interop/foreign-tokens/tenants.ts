import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { claimsOf } from "../../testkit/callers/foreign-tokens.ts";
import { createTokenKey, jwksOf, mintToken, type TokenKey } from "../../testkit/callers/tokens.ts";
import type { Outcome } from "../outcomes.ts";
import { startServing } from "./platforms.ts";
import { gotten } from "./plays.ts";

const tenants = ["a", "b"] as const;
const issuerOf = (tenant: string): string => `https://${tenant}.ci.test`;

/** The tenant chooses part of its namespace and its account by claims that are its own. */
const tableOf = (tenant: string, key: TokenKey): object => ({
  issuer: issuerOf(tenant),
  audiences: ["https://ca.test"],
  cluster: `tenant-${tenant}`,
  namespaces: [`team-${tenant}`, `team-${tenant}-*`],
  jwks: jwksOf(key),
  subjects: [
    {
      name: "chosen",
      claims: { repository_id: "*" },
      namespace: `team-${tenant}-{team}`,
      account: "job-{team}",
    },
    { name: "fixed", claims: { repository_id: "74" }, namespace: `team-${tenant}`, account: "job" },
  ],
});

/** What a tenant would write into its claims to reach the other's namespace. */
const reaching: readonly unknown[] = [
  ...["b", "b-x", "../team-b", "team-b", "b/sa/job", "x/../../team-b", "B", "b\u0000", "%62"],
  ...["b.", "-b", "b-", "", "spiffe://cluster.local/ns/team-b", "ｂ", "b\n", "team-b/sa/job"],
  ...[["b"], ["x", "b"], { team: "b" }, 7, true, null, 1.5, "a".repeat(64)],
];

/** Two tenants with tables of claims: neither gets an identity outside of its own namespaces. */
export async function playTenants(parent: string, csr: string): Promise<Outcome> {
  const folder = join(parent, "tenants");
  await mkdir(folder);
  const keys = await Promise.all(tenants.map(() => createTokenKey("ES256", "k1")));
  const ISSUERS = tenants.map((tenant, i) => tableOf(tenant, keys[i] as TokenKey));
  const serving = await startServing(folder, { ISSUERS });
  const faults: string[] = [];
  let passed = 0;
  try {
    for (const [i, tenant] of tenants.entries()) {
      const [own, other] = [keys[i], keys[1 - i]] as [TokenKey, TokenKey];
      const claims = { ...claimsOf("github", new Date()), iss: issuerOf(tenant) };
      for (const team of [undefined, ...reaching]) {
        const token = await mintToken(own, { ...claims, team });
        const got = gotten(await serving.ask({ csr, token }));
        const isOwn = new RegExp(`^spiffe://cluster\\.local/ns/team-${tenant}(?:-[a-z0-9-]+)?/sa/`);
        if (got === "Unauthenticated" || isOwn.test(got)) passed++;
        else faults.push(`${tenant} got ${got} by ${JSON.stringify(team)}`);
      }
      const forged = await mintToken(other, claims);
      const got = gotten(await serving.ask({ csr, token: forged }));
      if (got === "Unauthenticated") passed++;
      else faults.push(`${tenant}'s token by the other's key got ${got}`);
    }
  } finally {
    await serving.end();
  }
  return {
    client: "two tenants with claims of their choice",
    server: "rampart serve",
    passed,
    faults,
  };
}
