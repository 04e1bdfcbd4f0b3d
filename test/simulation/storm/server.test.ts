import { expect, test } from "vitest";
import { Serve, Worker } from "./server.ts";

const parameters = {
  processes: 1,
  certificateSeconds: 1,
  handshakeSeconds: 2,
  refusalSeconds: 0.25,
  connectionPlaces: 1,
  streamPlaces: 2,
  backlog: 2,
};

/** The workloads that a server ends, with their instants. */
function ends(server: Serve): [number, number][] {
  const all: [number, number][] = [];
  while (server.nextDone < Number.POSITIVE_INFINITY) {
    const at = server.nextDone;
    const workload = server.finish();
    if (workload >= 0) all.push([at, workload]);
  }
  return all;
}

test("calls on kept connections are served one after the other", () => {
  const server = new Serve(parameters);
  for (const workload of [7, 8, 9]) expect(server.offer(workload, false, 0)).toBe("queued");
  expect(ends(server)).toEqual([
    [1, 7],
    [2, 8],
    [3, 9],
  ]);
  expect(server.busySeconds).toBe(3);
});

test("a connection of its own costs its handshake", () => {
  const server = new Serve(parameters);
  server.offer(7, true, 0);
  server.offer(8, true, 0);
  expect(ends(server)).toEqual([
    [3, 7],
    [6, 8],
  ]);
});

test("two processes serve two calls at a time", () => {
  const server = new Serve({ ...parameters, processes: 2 });
  for (const workload of [7, 8, 9]) server.offer(workload, false, 0);
  expect(ends(server)).toEqual([
    [1, 7],
    [1, 8],
    [2, 9],
  ]);
});

test("a call without a place is refused, and the refusal takes the time of those that wait", () => {
  const server = new Serve(parameters);
  for (const workload of [7, 8, 9]) server.offer(workload, false, 0);
  expect(server.offer(10, false, 0)).toBe("refused");
  expect(server.offer(11, true, 0)).toBe("queued");
  expect(server.offer(12, true, 0)).toBe("refused");
  expect(ends(server)[0]).toEqual([1.5, 7]);
});

test("the kernel ignores connections beyond its backlog", () => {
  const server = new Serve(parameters);
  for (const workload of [7, 8, 9]) server.offer(workload, false, 0);
  const receptions = [10, 11, 12, 13, 14].map((workload) => server.offer(workload, false, 0));
  expect(receptions).toEqual(["refused", "refused", "refused", "unreachable", "unreachable"]);
});

test("refusals at most double the time of a certificate", () => {
  const server = new Serve({ ...parameters, backlog: 1000 });
  for (const workload of [7, 8, 9]) server.offer(workload, false, 0);
  for (let workload = 10; workload < 500; workload++) server.offer(workload, false, 0);
  expect(ends(server)).toEqual([
    [2, 7],
    [4, 8],
    [6, 9],
  ]);
});

test("a place is free again once its call is at work", () => {
  const server = new Serve(parameters);
  for (const workload of [7, 8, 9]) server.offer(workload, false, 0);
  expect(server.finish()).toBe(7);
  expect(server.offer(10, false, 1)).toBe("queued");
  expect(server.offer(11, false, 1)).toBe("refused");
});

test("the Worker serves every call at once", () => {
  const server = new Worker(0.5);
  expect([server.offer(), server.offer()]).toEqual(["served", "served"]);
  expect(server.busySeconds).toBe(1);
  expect(server.nextDone).toBe(Number.POSITIVE_INFINITY);
});
