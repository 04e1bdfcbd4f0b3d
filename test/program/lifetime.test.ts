import { expect, test } from "vitest";
import { Lifetime, timeoutOf } from "../../src/program/lifetime.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";

const log = createEventRecorder();

function recorded(...names: readonly string[]) {
  const life = new Lifetime(log);
  const ended: string[] = [];
  const opens = (name: string): void => life.endsWith(name, () => void ended.push(name));
  names.forEach(opens);
  return { life, ended, opens };
}

test("the part that was opened last ends first, and each ends before the next begins to", async () => {
  const { life, ended, opens } = recorded("the store");
  life.endsWith("the port", async () => {
    ended.push("the port closes");
    await new Promise(setImmediate);
    ended.push("the port is closed");
  });
  opens("the timer");
  await life.end(0);
  expect(ended).toEqual(["the timer", "the port closes", "the port is closed", "the store"]);
});

test("every part ends once, however often the program is told to end", async () => {
  const { life, ended } = recorded("the store");
  await Promise.all([life.end(0), life.end(0)]);
  await life.end(0);
  expect(ended).toEqual(["the store"]);
});

test("a part that throws keeps no other from its end, and the failure is told", async () => {
  const { life, ended, opens } = recorded("the store");
  life.endsWith("the port", () => {
    throw new Error("the port failed");
  });
  opens("the timer");
  await expect(life.end(0)).rejects.toThrow("the port failed");
  expect(ended).toEqual(["the timer", "the store"]);
});

test("of several parts that throw, all failures are told", async () => {
  const { life } = recorded();
  const first = new Error("first");
  const second = new Error("second");
  life.endsWith("the store", () => Promise.reject(second));
  life.endsWith("the port", () => Promise.reject(first));
  await expect(life.end(0)).rejects.toMatchObject({ error: second, suppressed: first });
});

test("a part that hangs is named in the log, and the others end without it", async () => {
  const recorder = createEventRecorder();
  const life = new Lifetime(recorder, undefined, 10);
  const ended: string[] = [];
  life.endsWith("the store", () => void ended.push("the store"));
  life.endsWith("the port", () => new Promise(() => {}));
  await life.end(0);
  expect(ended).toEqual(["the store"]);
  expect(recorder.operations).toMatchObject([
    { event: "ending", level: "warning", detail: expect.stringMatching(/^the port did not end/) },
  ]);
});

test("what belongs to one part ends at once, and the next part waits for all of it", async () => {
  const { life, ended } = recorded("the store");
  const plaintext = Promise.withResolvers<void>();
  life.endsWith(
    "the ports",
    () => Promise.reject(new Error("the port failed")),
    () => plaintext.promise.then(() => void ended.push("plaintext")),
  );
  const ending = life.end(0);
  await new Promise(setImmediate);
  expect(ended).toEqual([]);
  plaintext.resolve();
  await expect(ending).rejects.toThrow("the port failed");
  expect(ended).toEqual(["plaintext", "the store"]);
});

test("all parts share the grace of callers", async () => {
  const life = new Lifetime(log);
  const graces: number[] = [];
  life.endsWith("monitoring", (grace) => void graces.push(grace));
  life.endsWith("the port", async (grace) => {
    graces.push(grace);
    await new Promise((resolve) => setTimeout(resolve, 20));
  });
  await life.end(1000);
  const [first = 0, last = 0] = graces;
  expect(first).toBeGreaterThan(0);
  expect(last).toBeLessThan(first);
  expect(last).toBeGreaterThanOrEqual(0);
});

test("whoever waits learns of the end before the first part ends", async () => {
  const life = new Lifetime(log);
  let wasEnding = false;
  life.endsWith("the port", () => {
    wasEnding = life.ending.aborted;
  });
  expect(life.ending.aborted).toBe(false);
  await life.end(0);
  expect(wasEnding).toBe(true);
});

test("a program that is asked to end is ending at once, and ends its parts when it is told to", () => {
  const asking = new AbortController();
  const life = new Lifetime(log, asking.signal);
  asking.abort();
  expect(life.ending.aborted).toBe(true);
});

test("parts that hang, however many, share one budget beyond the grace", () => {
  for (const grace of [25_000, 3, 0]) {
    let left = grace;
    for (let parts = 0; parts < 12; parts++) {
      const patience = timeoutOf(left, 4000);
      expect(patience).toBeGreaterThan(0);
      left -= patience;
    }
    expect(grace - left).toBeLessThanOrEqual(grace + 4000);
  }
  expect(timeoutOf(-5000, 4000)).toBe(0);
});
