import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll } from "vitest";
import { createWorker } from "../../src/worker/worker.ts";
import {
  describeJwtSvids,
  describeNoJwtSvids,
  type StartTokens,
  tokenValues,
} from "../contract/tokens/jwt-svids.ts";
import { createTokenKey, jwksOf } from "../testkit/callers/tokens.ts";
import { takeAuditsOf } from "../testkit/log/log-lines.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";

const lines = recordConsoleLines();

beforeAll(async () => {
  const { keys } = await env.AUTHORITIES.list();
  for (const { name } of keys) await env.AUTHORITIES.delete(name);
});

const start: StartTokens = async (values) => {
  const key = await createTokenKey("ES256", "k1");
  const { ISSUERS, ...others }: Record<string, unknown> = { ...tokenValues, ...values };
  const tables = (ISSUERS as object[]).map((table) => ({ ...table, jwks: jwksOf(key) }));
  const environment = { ...env, ...others, ISSUERS: tables };
  const worker = createWorker({ clock: () => new Date() });
  await worker.scheduled(createScheduledController(), environment);
  return {
    send: (request) => worker.fetch(request, environment),
    key,
    now: () => new Date(),
    takeAudits: () => takeAuditsOf(lines),
  };
};

describeJwtSvids(start);
describeNoJwtSvids(start);
