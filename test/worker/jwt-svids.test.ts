import { env } from "cloudflare:workers";
import { beforeAll } from "vitest";
import {
  describeJwtSvids,
  describeNoJwtSvids,
  type StartTokens,
  tokenValues,
} from "../contract/tokens/jwt-svids.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { stageWorker, withKeys } from "./runtime/staged-worker.ts";

const lines = recordConsoleLines();

beforeAll(async () => {
  const { keys } = await env.AUTHORITIES.list();
  for (const { name } of keys) await env.AUTHORITIES.delete(name);
});

const start: StartTokens = async (values) => {
  const { ISSUERS, ...others }: Record<string, unknown> = { ...tokenValues, ...values };
  const worker = stageWorker({ ...others, ISSUERS: withKeys(...(ISSUERS as object[])) }, {}, lines);
  await worker.cron();
  return worker;
};

describeJwtSvids(start);
describeNoJwtSvids(start);
