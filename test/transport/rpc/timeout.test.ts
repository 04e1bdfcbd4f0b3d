import { expect, test } from "vitest";
import { withTimeout } from "../../../src/transport/rpc/timeout.ts";

const never = new Promise<never>(() => {});
const timeoutError = () => new Error("too late");
const timers = (): number =>
  process.getActiveResourcesInfo().filter((resource) => resource === "Timeout").length;

function waitFor<T>(work: Promise<T>, milliseconds = 60_000) {
  const caller = new AbortController();
  return {
    caller,
    waiting: withTimeout(work, { signal: caller.signal, milliseconds, timeoutError }),
  };
}

test("work in time has its own outcome", async () => {
  await expect(waitFor(Promise.resolve(1)).waiting).resolves.toBe(1);
  await expect(waitFor(Promise.reject(new Error("fault"))).waiting).rejects.toThrow("fault");
});

test("a wait ends at its timeout", async () => {
  await expect(waitFor(never, 1).waiting).rejects.toThrow("too late");
});

test("a wait ends when its signal aborts", async () => {
  const { caller, waiting } = waitFor(never);
  caller.abort();
  await expect(waiting).rejects.toThrow("too late");
  const signal = AbortSignal.abort();
  const late = withTimeout(never, { signal, milliseconds: 60_000, timeoutError });
  await expect(late).rejects.toThrow("too late");
});

test("a hang-up leaves no timer, though the work never ends", async () => {
  const before = timers();
  const { caller, waiting } = waitFor(never);
  expect(timers()).toBe(before + 1);
  caller.abort();
  expect(timers()).toBe(before);
  await expect(waiting).rejects.toThrow("too late");
});

test("work that is done leaves no timer, and no error for a signal that aborts later", async () => {
  const errors: Error[] = [];
  const caller = new AbortController();
  const before = timers();
  await withTimeout(Promise.resolve(), {
    signal: caller.signal,
    milliseconds: 60_000,
    timeoutError: () => {
      const error = timeoutError();
      errors.push(error);
      return error;
    },
  });
  expect(timers()).toBeLessThanOrEqual(before);
  caller.abort();
  expect(errors).toEqual([]);
});
