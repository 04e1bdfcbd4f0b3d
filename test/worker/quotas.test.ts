import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { createWorker } from "../../src/worker/worker.ts";
import { describeQuotas } from "../contract/bounds/quotas.ts";
import { bearer, callWithClient, grpcWeb } from "../contract/rpc-calls.ts";
import { issuerTables, origin, type ServiceUnderTest } from "../contract/service-under-test.ts";
import { createTokenKey, jwksOf } from "../testkit/callers/tokens.ts";
import { createWorkload } from "../testkit/callers/workload.ts";
import { parseLogLine, takeAuditsOf } from "../testkit/log/log-lines.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";

const lines = recordConsoleLines();

const warnings = () => lines.map(parseLogLine).filter(({ level }) => level === "warning");

/** A rate limit whose minute does not end. */
function rateLimit(limit: number) {
  const taken = new Map<string, number>();
  return {
    limit: async ({ key }: { readonly key: string }) => {
      const before = taken.get(key) ?? 0;
      taken.set(key, before + 1);
      return { success: before < limit };
    },
  };
}

async function start(bindings: Readonly<Record<string, unknown>>): Promise<ServiceUnderTest> {
  const key = await createTokenKey("ES256", "k1");
  const ISSUERS = [issuerTables.cluster, issuerTables.team].map((table) => ({
    ...table,
    jwks: jwksOf(key),
  }));
  const { CALLER_QUOTA, ISSUER_QUOTA, ...others } = env;
  const environment = { ...others, ISSUERS, ...bindings };
  const worker = createWorker({ clock: () => new Date() });
  await worker.scheduled(createScheduledController(), environment);
  const send = (request: Request) => worker.fetch(request, environment);
  return { send, key, now: () => new Date(), takeAudits: () => takeAuditsOf(lines) };
}

describeQuotas(({ caller, issuer }) =>
  start({ CALLER_QUOTA: rateLimit(caller), ISSUER_QUOTA: rateLimit(issuer) }),
);

async function ask(service: ServiceUnderTest): Promise<string> {
  const { csrPem: csr } = await createWorkload();
  const outcome = await callWithClient(grpcWeb, service, { csr }, await bearer(service));
  return "code" in outcome ? outcome.code : "issued";
}

describe("a Worker", () => {
  test("asks the platform's own rate limits", async () => {
    const service = await start({ CALLER_QUOTA: env.CALLER_QUOTA, ISSUER_QUOTA: env.ISSUER_QUOTA });
    expect(await ask(service)).toBe("issued");
    expect(warnings().map(({ detail }) => detail)).not.toContainEqual(
      expect.stringContaining("QUOTA"),
    );
  });

  test("without rate limits has no limit, and says so once", async () => {
    const service = await start({});
    for (let i = 0; i < 3; i++) expect(await ask(service)).toBe("issued");
    const details = warnings().map(({ detail }) => `${detail}`);
    expect(details.filter((each) => each.includes("QUOTA: is not bound"))).toHaveLength(2);
  });

  test("goes on while the platform cannot count, and says so", async () => {
    const broken = { limit: () => Promise.reject(new Error("no counter")) };
    const service = await start({ CALLER_QUOTA: broken });
    expect(await ask(service)).toBe("issued");
    expect(warnings()).toContainEqual(
      expect.objectContaining({ event: "quota-unknown", detail: "no counter" }),
    );
  });

  test("refuses a number where the platform has a rate limit", async () => {
    const worker = createWorker({ clock: () => new Date() });
    const environment = { ...env, CALLER_QUOTA: "600" };
    const response = await worker.fetch(new Request(`${origin}/readyz`), environment);
    expect(response.status).toBe(503);
    expect(await response.text()).toContain("CALLER_QUOTA: is not a key of Rampart");
  });
});
