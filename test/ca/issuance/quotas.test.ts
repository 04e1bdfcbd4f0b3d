import { expect, test } from "vitest";
import { type Quotas, requireQuotas } from "../../../src/ca/issuance/quotas.ts";
import { describeQuotas } from "../../contract/bounds/quotas.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { serviceOf, startCa } from "../../testkit/ca/running-ca.ts";
import { tokenIssuerWithoutKeys } from "../../testkit/callers/token-issuers.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { proved, workload } from "../../testkit/pki/certificates.ts";

/** Counts what each key has taken, and gives nothing back. */
function counter(limit: number) {
  const taken = new Map<string, number>();
  return (key: string): number => {
    const before = taken.get(key) ?? 0;
    taken.set(key, before + 1);
    return before < limit ? 0 : 1;
  };
}

describeQuotas(async ({ caller, issuer }) => {
  const key = await createTokenKey("ES256", "k1");
  const ISSUERS = [issuerTables.cluster, issuerTables.team].map((table) => ({
    ...table,
    jwks: jwksOf(key),
  }));
  const quotas = { caller: counter(caller), issuer: counter(issuer) };
  const ca = await startCa({ ISSUERS }, { quotas });
  await ca.found();
  return serviceOf(ca, key);
});

test("each pod, identity and issuer has a quota of its own, and all callers of an issuer one together", async () => {
  const keys: Record<"caller" | "issuer", string[]> = { caller: [], issuer: [] };
  const quotas: Quotas = {
    caller: (key) => keys.caller.push(key) && 0,
    issuer: (key) => keys.issuer.push(key) && 0,
  };
  const issuers = ["a", "b"].map((name) => tokenIssuerWithoutKeys(`https://${name}.test`));
  const account = { namespace: "foo", name: "bar" };
  const [own, other] = ["bar", "baz"].map((name) => workload("foo", name));
  if (!own || !other) throw new Error("unreachable");
  for (const issuer of issuers) {
    for (const uid of ["1", "2"]) {
      for (const asked of [own, other]) {
        const pod = { name: `bar-${uid}`, uid };
        const caller = { spiffeId: own, account, issuer, pod, proof: proved };
        await requireQuotas(quotas, caller, asked, new Date(0));
      }
    }
  }
  expect([new Set(keys.caller).size, new Set(keys.issuer).size]).toEqual([8, 2]);
});
