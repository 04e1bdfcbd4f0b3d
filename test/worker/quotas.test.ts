import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { describeQuotas } from "../contract/bounds/quotas.ts";
import { issuerTables } from "../contract/service-under-test.ts";
import { parseLogLine } from "../testkit/log/log-lines.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { stageWorker, withKeys } from "./runtime/staged-worker.ts";

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

async function start(bindings: Readonly<Record<string, unknown>>) {
  const ISSUERS = withKeys(issuerTables.cluster, issuerTables.team);
  const unbound = { CALLER_QUOTA: undefined, ISSUER_QUOTA: undefined };
  const worker = stageWorker({ ISSUERS, ...unbound, ...bindings }, {}, lines);
  await worker.cron();
  return worker;
}

describeQuotas(({ caller, issuer }) =>
  start({ CALLER_QUOTA: rateLimit(caller), ISSUER_QUOTA: rateLimit(issuer) }),
);

describe("a Worker", () => {
  test("asks the platform's own rate limits", async () => {
    const { call } = await start({
      CALLER_QUOTA: env.CALLER_QUOTA,
      ISSUER_QUOTA: env.ISSUER_QUOTA,
    });
    expect(await call()).toHaveProperty("certChain");
    expect(warnings().map(({ detail }) => detail)).not.toContainEqual(
      expect.stringContaining("QUOTA"),
    );
  });

  test("without rate limits has no limit, and says so once", async () => {
    const { call } = await start({});
    for (let i = 0; i < 3; i++) expect(await call()).toHaveProperty("certChain");
    const details = warnings().map(({ detail }) => `${detail}`);
    expect(details.filter((each) => each.includes("QUOTA: is not bound"))).toHaveLength(2);
  });

  test("goes on while the platform cannot count, and says so", async () => {
    const broken = { limit: () => Promise.reject(new Error("no counter")) };
    const { call } = await start({ CALLER_QUOTA: broken });
    expect(await call()).toHaveProperty("certChain");
    expect(warnings()).toContainEqual(
      expect.objectContaining({ event: "quota-unknown", detail: "no counter" }),
    );
  });

  test("refuses a number where the platform has a rate limit", async () => {
    const response = await stageWorker({ CALLER_QUOTA: "600" }).get("/readyz");
    expect(response.status).toBe(503);
    expect(await response.text()).toContain("CALLER_QUOTA: is not a key of Rampart");
  });
});
