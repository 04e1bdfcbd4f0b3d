import { createScheduledController } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { describeCertificateService } from "../contract/certificate-service.ts";
import { issuers, origin, type ReviewingService } from "../contract/service-under-test.ts";
import { createTokenKey, jwksOf } from "../testkit/callers/tokens.ts";
import { takeAuditsOf } from "../testkit/log/log-lines.ts";
import { eventually } from "../testkit/time/eventually.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { registry, reviewingApi } from "./runtime/internet.ts";
import worker from "./runtime/patient-worker.ts";

const send = (request: Request): Promise<Response> => exports.default.fetch(request);
const get = (path: string) => send(new Request(`${origin}${path}`));

// The Worker writes its events to the console, and a test in workerd sees them nowhere else.
const lines = recordConsoleLines();

async function startWorker(): Promise<ReviewingService> {
  const key = await createTokenKey("ES256", "k1");
  const { cluster, team, reviewed, busy } = issuers;
  for (const issuer of [cluster, team, reviewed, busy]) {
    const { host } = new URL(issuer);
    await fetch(`${registry}${host}`, { method: "PUT", body: JSON.stringify(jwksOf(key)) });
  }
  const questions = async () => Number(await (await fetch(reviewingApi)).text());
  return { send, key, now: () => new Date(), takeAudits: () => takeAuditsOf(lines), questions };
}

describe("a Worker with an empty store", () => {
  test("is alive, is not ready, and publishes no bundle", async () => {
    expect((await get("/healthz")).status).toBe(200);
    const response = await get("/readyz");
    expect(response.status).toBe(503);
    expect(await response.json()).toEqual({ ready: false, reasons: [expect.any(String)] });
    expect((await get("/bundle.pem")).status).toBe(503);
  });

  test("founds one authority by its cron, whatever the cron string", async () => {
    for (const cron of ["*/15 * * * *", "0 0 1 1 *", ""]) {
      await worker.scheduled(createScheduledController({ cron }), { ...env });
    }
    const { keys } = await env.AUTHORITIES.list();
    expect(keys.map(({ name }) => name)).toEqual([
      expect.stringMatching(/^authorities\/[0-9a-f]{40}$/),
    ]);
  });

  test("is ready soon after", async () => {
    await eventually(async () => expect((await get("/readyz")).status).toBe(200));
  });
});

describeCertificateService(startWorker);
