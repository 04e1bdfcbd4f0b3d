import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { type LogLine, parseLogLine } from "../testkit/log/log-lines.ts";
import { hangMilliseconds } from "../testkit/time/hang-limit.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { type UpstreamConduct, type UpstreamOrders, upstreamUrl } from "./runtime/internet.ts";
import { stageWorker } from "./runtime/staged-worker.ts";

const day = 86_400;
const [leaf, propagation] = [10 * day, 600];
const secret = "hvs.secret-of-the-upstream";

const lines = recordConsoleLines();

const faults = (): readonly LogLine[] =>
  lines.map(parseLogLine).filter(({ event }) => event === "rotation-fault");

/** A Worker under a CA upstream. */
async function start(kind: "rampart" | "vault") {
  await reset();
  const values = {
    AUTHORITY_ROOT: "upstream",
    UPSTREAM_AUTHORITY: { kind, url: upstreamUrl },
    // As text, and as a binding of the Secrets Store.
    UPSTREAM_CREDENTIAL: kind === "vault" ? secret : { get: async () => secret },
    MAX_WORKLOAD_CERT_TTL: `${leaf}s`,
    PROPAGATION_INTERVAL: `${propagation}s`,
    AUTHORITY_LIFETIME: `${90 * day}s`,
  };
  const worker = stageWorker(values, { fetchTimeoutMilliseconds: hangMilliseconds });
  return {
    ...worker,
    /** Runs the cron while the CA upstream behaves like this. */
    cron: async (conduct: UpstreamConduct, fetchTimeoutMilliseconds?: number) => {
      const orders: UpstreamOrders = { conduct, now: Math.floor(worker.now().getTime() / 1000) };
      await fetch(upstreamUrl, { method: "PUT", body: JSON.stringify(orders) });
      const hurried = { clock: worker.now, fetchTimeoutMilliseconds };
      await (fetchTimeoutMilliseconds ? stageWorker(values, hurried) : worker).cron();
    },
    readiness: async (): Promise<{ ready: boolean; authority?: string; reasons: string[] }> =>
      (await worker.get("/readyz")).json(),
    isIssuing: async () => "certChain" in (await worker.call()),
  };
}

const timesAsked = async (): Promise<number> => Number(await (await fetch(upstreamUrl)).text());

describe.each(["vault", "rampart"] as const)("the cron, under a CA of the kind %s", (kind) => {
  test("founds the CA with what that gives, and asks again when it is due", async () => {
    const ca = await start(kind);
    const before = await timesAsked();
    await ca.cron("signs");
    ca.pass(2 * propagation);
    const { ready, authority } = await ca.readiness();
    expect([ready, await ca.isIssuing()]).toEqual([true, true]);
    ca.pass(5 * day);
    await ca.cron("signs");
    expect(await timesAsked()).toBe(before + 1);
    ca.pass(45 * day);
    await ca.cron("signs");
    expect(await timesAsked()).toBe(before + 2);
    ca.pass(propagation);
    const next = await ca.readiness();
    expect([next.ready, next.reasons, await ca.isIssuing()]).toEqual([true, [], true]);
    expect(next.authority).not.toBe(authority);
    expect(lines.join()).not.toContain(secret);
  });

  test("leaves a CA that hangs, and issues meanwhile", async () => {
    const ca = await start(kind);
    await ca.cron("signs");
    ca.pass(50 * day);
    const { authority } = await ca.readiness();
    const run = ca.cron("hangs", 1_000);
    expect(await ca.isIssuing()).toBe(true);
    await expect(run).rejects.toThrow(AggregateError);
    expect(faults()).toEqual([expect.objectContaining({ level: "error" })]);
    expect((await ca.readiness()).authority).toBe(authority);
  });

  test("founds nothing, and signs nothing, while the CA gives nothing", async () => {
    const ca = await start(kind);
    await expect(ca.cron("refuses")).rejects.toThrow("answered with status 403");
    expect((await env.AUTHORITIES.list()).keys).toEqual([]);
    expect(faults()).toHaveLength(1);
    expect((await ca.readiness()).ready).toBe(false);
    expect(await ca.isIssuing()).toBe(false);
  });
});

test("a Worker refuses roots of its own for the CA upstream, which it cannot trust", async () => {
  const ca = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  const response = await stageWorker({
    AUTHORITY_ROOT: "upstream",
    UPSTREAM_AUTHORITY: { kind: "vault", url: upstreamUrl, ca },
    UPSTREAM_CREDENTIAL: secret,
  }).get("/readyz");
  expect(response.status).toBe(503);
  expect(await response.text()).toContain(
    "UPSTREAM_AUTHORITY: a ca of its own is not possible on Workers",
  );
});
