import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { rm, stat, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { setImmediate } from "node:timers/promises";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import {
  parseWorkloadFile,
  startFileFeed,
  startSocketFeed,
} from "../../../src/agent/node-mode/node-mode.ts";
import type { Workload, WorkloadListener } from "../../../src/agent/node-mode/workload-registry.ts";
import { createEventRecorder, type EventRecorder } from "../../testkit/log/event-recorder.ts";
import { clusterLocal, workload } from "../../testkit/pki/certificates.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

class RecordingListener implements WorkloadListener {
  readonly received: string[] = [];
  isFull = false;

  add({ uid, spiffeId }: Workload): boolean {
    if (!this.isFull) this.received.push(`add ${uid} ${spiffeId}`);
    return !this.isFull;
  }

  remove(uid: string): void {
    this.received.push(`remove ${uid}`);
  }

  replaceAll(workloads: readonly Workload[]): boolean {
    if (!this.isFull) this.received.push(`all ${workloads.map(({ uid }) => uid).join(" ")}`);
    return !this.isFull;
  }

  list(): readonly Workload[] {
    return [{ uid: "1", spiffeId: workload("foo", "bar") }];
  }
}

const received = (count: number) => eventually(() => expect(listener.received).toHaveLength(count));

let listener: RecordingListener;
let path: string;
let log: EventRecorder;

beforeEach(async () => {
  listener = new RecordingListener();
  log = createEventRecorder();
  path = `${await temporaryFolder()}/workloads`;
});

/** Starts a feed, which ends with the test. */
async function started(start: typeof startFileFeed | typeof startSocketFeed) {
  const feed = await start({ path, listener, trustDomain: clusterLocal, log });
  onTestFinished(() => feed.close());
  return feed;
}

test("reads a file of workloads", () => {
  const text = "# pods of this node\n\nuid-1  foo   bar\nuid-2 foo baz # a comment\n";
  expect(parseWorkloadFile(text, clusterLocal)).toEqual([
    { uid: "uid-1", spiffeId: "spiffe://cluster.local/ns/foo/sa/bar" },
    { uid: "uid-2", spiffeId: "spiffe://cluster.local/ns/foo/sa/baz" },
  ]);
});

test.each(["uid foo", "uid foo bar more", "uid FOO bar", "uid foo ../bar", "u/i/d foo bar"])(
  "refuses a file with the line %j, as a whole",
  (line) => {
    expect(() => parseWorkloadFile(`uid-1 foo bar\n${line}\n`, clusterLocal)).toThrow("line 2");
  },
);

test("follows a file, and keeps the last good list", async () => {
  await writeFile(path, "1 foo bar\n");
  const feed = await started(startFileFeed);
  // Synchronous, so that the feed never reads a truncated file.
  writeFileSync(path, "1 foo bar\n2 foo bar\n");
  await received(2);
  writeFileSync(path, "what\n");
  await log.until("workloads-unread");
  expect(feed.fault).toBeUndefined();
  await rm(path);
  writeFileSync(path, "2 foo bar\n");
  await received(3);
  expect(listener.received).toEqual(["all 1", "all 1 2", "all 2"]);
});

test("starts before its file exists, reads it once it does, and says that one with too many workloads is not read", async () => {
  const feed = await started(startFileFeed);
  expect(listener.received).toEqual([]);
  expect(log.operations).toMatchObject([{ event: "workloads-unread" }]);
  expect(feed.fault).toContain("does not exist");
  listener.isFull = true;
  writeFileSync(path, "1 foo bar\n");
  expect(await log.until("workloads-unread", 2)).toMatchObject({ detail: "too many workloads" });
  expect(feed.fault).toContain("too many workloads");
  listener.isFull = false;
  writeFileSync(path, "2 foo bar\n");
  await log.until("workloads-read");
  expect(feed.fault).toBeUndefined();
});

/** Connects to a feed on a socket. */
async function connectToFeed() {
  const socket = connect(path);
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  const answers = createInterface(socket)[Symbol.asyncIterator]();
  const send = async (command: unknown): Promise<unknown> => {
    socket.write(`${typeof command === "string" ? command : JSON.stringify(command)}\n`);
    return JSON.parse((await answers.next()).value ?? "null");
  };
  return { socket, send };
}

const listed = { uid: "1", namespace: "foo", serviceAccount: "bar" };
const add = { op: "add", ...listed };

test("takes workloads from a socket that only the agent's user may open, and keeps them when the connection ends", async () => {
  await started(startSocketFeed);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  const first = await connectToFeed();
  expect(await first.send(add)).toEqual({ ok: true });
  first.socket.end();
  const second = await connectToFeed();
  expect(await second.send({ op: "remove", uid: "1" })).toEqual({ ok: true });
  expect(listener.received).toEqual(["add 1 spiffe://cluster.local/ns/foo/sa/bar", "remove 1"]);
});

test("is complete with the first list of all workloads, and not before", async () => {
  const feed = await started(startSocketFeed);
  const { send } = await connectToFeed();
  expect(await send(add)).toEqual({ ok: true });
  expect(feed.fault).toContain("no list");
  const sync = { op: "sync", workloads: [listed, { ...listed, uid: "2" }] };
  listener.isFull = true;
  expect(await send(sync)).toEqual({ ok: false, error: "too many workloads" });
  expect(feed.fault).toContain("no list");
  listener.isFull = false;
  expect(await send(sync)).toEqual({ ok: true });
  expect(feed.fault).toBeUndefined();
  expect(listener.received.at(-1)).toBe("all 1 2");
});

test("takes the longest list, and refuses one with a workload that is none, as a whole", async () => {
  await started(startSocketFeed);
  const { send } = await connectToFeed();
  const workloads = Array.from({ length: 10_000 }, (_, i) => ({ ...listed, uid: `uid-${i}` }));
  expect(await send({ op: "sync", workloads })).toEqual({ ok: true });
  const wrong = [...workloads, { ...listed, namespace: "../x" }];
  expect(await send({ op: "sync", workloads: wrong })).toEqual({
    ok: false,
    error: "not a list of workloads",
  });
  expect(listener.received).toHaveLength(1);
});

test("lists the workloads that it knows", async () => {
  await started(startSocketFeed);
  const { send, socket } = await connectToFeed();
  socket.write('{"op":');
  await setImmediate();
  expect(await send('"list"}')).toEqual({
    ok: true,
    workloads: [{ uid: "1", spiffeId: "spiffe://cluster.local/ns/foo/sa/bar" }],
  });
});

test("answers an unknown command with an error, and goes on", async () => {
  await started(startSocketFeed);
  const { send } = await connectToFeed();
  const unknown = ["", "{", "[]", { ...add, op: "replace" }, { ...add, more: 1 }, { op: "add" }];
  for (const command of unknown)
    expect(await send(command)).toEqual({ ok: false, error: "not a command" });
  expect(await send({ ...add, namespace: "../x" })).toEqual({ ok: false, error: "not a workload" });
  listener.isFull = true;
  expect(await send(add)).toEqual({ ok: false, error: "too many workloads" });
  listener.isFull = false;
  expect(await send(add)).toEqual({ ok: true });
});

test("reads no more from a client that leaves its answers unread, until it reads them", async () => {
  let lists = 0;
  const known = Array.from({ length: 100 }, (_, i) => ({
    uid: `${i}`,
    spiffeId: workload("a", "b"),
  }));
  listener.list = () => {
    lists++;
    return known;
  };
  await started(startSocketFeed);
  const socket = connect(path);
  onTestFinished(() => void socket.destroy());
  const count = 1_000;
  socket.write(`{"op":"list"}${" ".repeat(2_000)}\n`.repeat(count));
  // A turn in which the feed answers nothing follows only when it reads no more.
  for (let seen = -1, calm = 0; calm < 50; seen = lists) {
    await setImmediate();
    calm = lists > 0 && lists === seen ? calm + 1 : 0;
  }
  expect(lists).toBeLessThan(count);
  let answers = 0;
  for await (const _answer of createInterface(socket)) if (++answers === count) break;
  expect(lists).toBe(count);
});

test("takes 64 connections, and closes the next", async () => {
  await started(startSocketFeed);
  for (let i = 0; i < 64; i++) await connectToFeed();
  const last = connect(path);
  await once(last.resume(), "close");
});

test("closes a connection whose line never ends", async () => {
  await started(startSocketFeed);
  const { socket } = await connectToFeed();
  socket.on("error", () => undefined);
  const closed = new Promise((resolve) => socket.on("close", resolve));
  socket.write("x".repeat(9_000_000));
  await closed;
  expect(listener.received).toEqual([]);
});
