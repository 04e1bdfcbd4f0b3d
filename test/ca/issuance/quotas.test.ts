import { describeQuotas } from "../../contract/bounds/quotas.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";

/** Counts what each key has taken, and gives nothing back. */
function counter(limit: number) {
  const taken = new Map<string, number>();
  return (key: string): number => {
    const before = taken.get(key) ?? 0;
    taken.set(key, before + 1);
    return before < limit ? 0 : 60;
  };
}

describeQuotas(async ({ caller, issuer }) => {
  const key = await createTokenKey("ES256", "k1");
  const ISSUERS = [issuerTables.cluster, issuerTables.team].map((table) => ({
    ...table,
    jwks: jwksOf(key),
  }));
  const quotas = { caller: counter(caller), issuer: counter(issuer) };
  const { app, found, log, now } = await startCa({ ISSUERS }, { quotas });
  await found();
  return {
    send: async (request) => app.fetch(request),
    key,
    now,
    takeAudits: () => log.audits.splice(0),
  };
});
