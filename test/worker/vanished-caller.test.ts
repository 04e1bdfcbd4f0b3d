import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { createWorker } from "../../src/worker/worker.ts";
import { connectJson, outcomeOf, requestOf } from "../contract/rpc-calls.ts";
import { issuers, issuerTables } from "../contract/service-under-test.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../testkit/callers/tokens.ts";
import { createWorkload } from "../testkit/callers/workload.ts";
import { takeAuditsOf } from "../testkit/log/log-lines.ts";
import { hangMilliseconds } from "../testkit/time/hang-limit.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";

const lines = recordConsoleLines();

// The edge aborts the signal of a request whose caller is gone, by default since the newest compatibility date.
test("a call ends with its caller, whatever it waits for, and no other call suffers", async () => {
  const key = await createTokenKey("ES256", "k1");
  const ISSUERS = [issuerTables.stalled, { ...issuerTables.cluster, jwks: jwksOf(key) }];
  const environment = { ...env, ISSUERS };
  const worker = createWorker({
    clock: () => new Date(),
    fetchTimeoutMilliseconds: hangMilliseconds,
  });
  await worker.scheduled(createScheduledController(), environment);
  const { csrPem: csr } = await createWorkload();
  const call = async (issuer: string, signal?: AbortSignal) => {
    const token = await mintAccountToken(key, issuer, "foo:bar", new Date());
    const request = requestOf(connectJson, { csr }, { authorization: `Bearer ${token}` });
    return worker.fetch(new Request(request, signal ? { signal } : {}), environment);
  };
  const gone = new AbortController();
  const calls = Array.from({ length: 5 }, () => call(issuers.stalled, gone.signal));
  expect(await outcomeOf(connectJson, await call(issuers.cluster))).toHaveProperty("certChain");
  gone.abort();
  for (const each of calls)
    expect(await outcomeOf(connectJson, await each)).toMatchObject({ code: "DeadlineExceeded" });
  expect(await outcomeOf(connectJson, await call(issuers.cluster))).toHaveProperty("certChain");
  const reasons = takeAuditsOf(lines).map(({ reason }) => reason);
  expect(reasons).toEqual([undefined, ...calls.map(() => "request-abandoned"), undefined]);
});
