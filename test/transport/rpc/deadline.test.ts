import { expect, test } from "vitest";
import { Deadline } from "../../../src/transport/rpc/deadline.ts";

const never = new Promise<never>(() => {});
const late = () => new Error("too late");
const timers = (): number =>
  process.getActiveResourcesInfo().filter((resource) => resource === "Timeout").length;

function deadlineIn(milliseconds = 60_000) {
  const caller = new AbortController();
  return { caller, deadline: new Deadline(caller.signal, milliseconds) };
}

test("work that ends in time keeps its own outcome", async () => {
  const { deadline } = deadlineIn();
  await expect(deadline.wait(Promise.resolve(1), late)).resolves.toBe(1);
  await expect(deadline.wait(Promise.reject(new Error("fault")), late)).rejects.toThrow("fault");
  deadline.end();
});

test("a wait ends at its deadline, and so does every later one", async () => {
  const { deadline } = deadlineIn(1);
  await expect(deadline.wait(never, late)).rejects.toThrow("too late");
  await expect(deadline.wait(never, () => new Error("later"))).rejects.toThrow("later");
  const failed = deadline.wait(Promise.reject(new Error("fault")), late);
  await expect(failed).rejects.toThrow("too late");
});

test("a wait ends when its signal aborts", async () => {
  const { caller, deadline } = deadlineIn();
  await deadline.wait(Promise.resolve(), late);
  const waiting = deadline.wait(never, late);
  caller.abort();
  await expect(waiting).rejects.toThrow("too late");
  const gone = new Deadline(AbortSignal.abort(), 60_000);
  await expect(gone.wait(never, late)).rejects.toThrow("too late");
});

test("a deadline takes one timer for all its waits, and a hang-up leaves none", async () => {
  const before = timers();
  const { caller, deadline } = deadlineIn();
  await deadline.wait(Promise.resolve(), late);
  const waiting = deadline.wait(never, late);
  expect(timers()).toBe(before + 1);
  caller.abort();
  expect(timers()).toBe(before);
  await expect(waiting).rejects.toThrow("too late");
});

test("a call whose caller has hung up already takes no timer", () => {
  const before = timers();
  new Deadline(AbortSignal.abort(), 60_000).end();
  expect(timers()).toBe(before);
});

test("an ended deadline leaves no timer, and makes no error when its signal aborts later", async () => {
  const errors: Error[] = [];
  const before = timers();
  const { caller, deadline } = deadlineIn();
  await deadline.wait(Promise.resolve(), () => {
    const error = late();
    errors.push(error);
    return error;
  });
  deadline.end();
  expect(timers()).toBeLessThanOrEqual(before);
  caller.abort();
  expect(errors).toEqual([]);
});
