import { expect, test } from "vitest";
import { bearer, connectJson, outcomeOf, requestOf } from "../contract/rpc-calls.ts";
import { issuers, issuerTables } from "../contract/service-under-test.ts";
import { hangMilliseconds } from "../testkit/time/hang-limit.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { csr, stageWorker, withKeys } from "./runtime/staged-worker.ts";

const lines = recordConsoleLines();

// The edge aborts the signal of a request whose caller is gone, by default since the newest compatibility date.
test("a call ends with its caller, whatever it waits for, and no other call suffers", async () => {
  const ISSUERS = [issuerTables.stalled, ...withKeys(issuerTables.cluster)];
  const worker = stageWorker({ ISSUERS }, { fetchTimeoutMilliseconds: hangMilliseconds }, lines);
  await worker.cron();
  const call = async (issuer: string, signal?: AbortSignal) => {
    const request = requestOf(connectJson, { csr }, await bearer(worker, "foo:bar", issuer));
    return worker.send(new Request(request, signal ? { signal } : {}));
  };
  const gone = new AbortController();
  const calls = Array.from({ length: 5 }, () => call(issuers.stalled, gone.signal));
  expect(await outcomeOf(connectJson, await call(issuers.cluster))).toHaveProperty("certChain");
  gone.abort();
  for (const each of calls)
    expect(await outcomeOf(connectJson, await each)).toMatchObject({ code: "DeadlineExceeded" });
  expect(await outcomeOf(connectJson, await call(issuers.cluster))).toHaveProperty("certChain");
  const reasons = worker.takeAudits().map(({ reason }) => reason);
  expect(reasons).toEqual([undefined, ...calls.map(() => "request-abandoned"), undefined]);
});
