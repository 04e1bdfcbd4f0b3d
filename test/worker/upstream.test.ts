import { createScheduledController, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { bearer, callWithClient, grpcWeb } from "../contract/rpc-calls.ts";
import { issuerTables, origin, type ServiceUnderTest } from "../contract/service-under-test.ts";
import { createTokenKey, jwksOf } from "../testkit/callers/tokens.ts";
import { createWorkload } from "../testkit/callers/workload.ts";
import { type LogLine, parseLogLine } from "../testkit/log/log-lines.ts";
import { hangMilliseconds } from "../testkit/time/hang-limit.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { type UpstreamConduct, type UpstreamOrders, upstreamUrl } from "./runtime/internet.ts";

const day = 86_400;
const [leaf, propagation] = [10 * day, 600];
const secret = "hvs.secret-of-the-upstream";
const key = await createTokenKey("ES256", "k1");

const lines = recordConsoleLines();

const faults = (): readonly LogLine[] =>
  lines.map(parseLogLine).filter(({ event }) => event === "rotation-fault");

/** A Worker under a CA upstream, with a clock of its own. */
interface UpstreamWorker extends ServiceUnderTest {
  readonly pass: (seconds: number) => void;
  /** Runs the cron while the CA upstream behaves like this. */
  readonly cron: (conduct: UpstreamConduct, fetchTimeoutMilliseconds?: number) => Promise<void>;
  readonly readiness: () => Promise<{ ready: boolean; authority?: string; reasons: string[] }>;
  readonly isIssuing: () => Promise<boolean>;
}

async function start(kind: "rampart" | "vault"): Promise<UpstreamWorker> {
  await reset();
  let now = new Date();
  const environment = {
    ...env,
    ISSUERS: [{ ...issuerTables.cluster, jwks: jwksOf(key) }],
    AUTHORITY_ROOT: "upstream",
    UPSTREAM_AUTHORITY: { kind, url: upstreamUrl },
    // As text, and as a binding of the Secrets Store.
    UPSTREAM_CREDENTIAL: kind === "vault" ? secret : { get: async () => secret },
    MAX_WORKLOAD_CERT_TTL: `${leaf}s`,
    PROPAGATION_INTERVAL: `${propagation}s`,
    AUTHORITY_LIFETIME: `${90 * day}s`,
  };
  const clock = () => now;
  const workerWith = (fetchTimeoutMilliseconds: number) =>
    createWorker({ clock, fetchTimeoutMilliseconds });
  const worker = workerWith(hangMilliseconds);
  const send = (request: Request) => worker.fetch(request, environment);
  const service: ServiceUnderTest = { send, key, now: clock, takeAudits: () => [] };
  return {
    ...service,
    pass: (seconds) => {
      now = addSeconds(now, seconds);
    },
    cron: async (conduct, timeout) => {
      const orders: UpstreamOrders = { conduct, now: Math.floor(now.getTime() / 1000) };
      await fetch(upstreamUrl, { method: "PUT", body: JSON.stringify(orders) });
      const runs = timeout === undefined ? worker : workerWith(timeout);
      await runs.scheduled(createScheduledController(), environment);
    },
    readiness: async () => (await send(new Request(`${origin}/readyz`))).json(),
    isIssuing: async () => {
      const { csrPem: csr } = await createWorkload();
      return (
        "certChain" in (await callWithClient(grpcWeb, service, { csr }, await bearer(service)))
      );
    },
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
  const worker = createWorker({ clock: () => new Date() });
  const ca = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  const response = await worker.fetch(new Request(`${origin}/readyz`), {
    ...env,
    AUTHORITY_ROOT: "upstream",
    UPSTREAM_AUTHORITY: { kind: "vault", url: upstreamUrl, ca },
    UPSTREAM_CREDENTIAL: secret,
  });
  expect(response.status).toBe(503);
  expect(await response.text()).toContain(
    "UPSTREAM_AUTHORITY: a ca of its own is not possible on Workers",
  );
});
