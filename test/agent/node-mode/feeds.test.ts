import { once } from "node:events";
import { rm, stat, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { parseWorkloadFile, startFileFeed } from "../../../src/agent/node-mode/file-feed.ts";
import { startSocketFeed } from "../../../src/agent/node-mode/socket-feed.ts";
import type { Workload, WorkloadAudience } from "../../../src/agent/node-mode/workload.ts";
import { createEventRecorder, type EventRecorder } from "../../testkit/event-recorder.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { temporaryFolder } from "../stories/running-agent.ts";

/** Remembers what it heard, and can be waited for. */
class Listener implements WorkloadAudience {
  readonly heard: string[] = [];
  #wake: () => void = () => undefined;
  isFull = false;

  add({ uid, spiffeId }: Workload): boolean {
    if (!this.isFull) this.#hear(`add ${uid} ${spiffeId}`);
    return !this.isFull;
  }

  remove(uid: string): void {
    this.#hear(`remove ${uid}`);
  }

  replaceAll(workloads: readonly Workload[]): void {
    this.#hear(`all ${workloads.map(({ uid }) => uid).join(" ")}`);
  }

  async until(count: number): Promise<void> {
    while (this.heard.length < count) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #hear(what: string): void {
    this.heard.push(what);
    this.#wake();
  }
}

let audience: Listener;
let path: string;
let log: EventRecorder;

beforeEach(async () => {
  audience = new Listener();
  log = createEventRecorder();
  path = `${await temporaryFolder()}/workloads`;
});

const options = () => ({
  path,
  audience,
  trustDomain: clusterLocal,
  log,
});

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

test("follows a file, and keeps the last good state of it", async () => {
  await writeFile(path, "1 foo bar\n");
  const feed = await startFileFeed(options());
  onTestFinished(() => feed.close());
  await writeFile(path, "1 foo bar\n2 foo bar\n");
  await audience.until(2);
  await writeFile(path, "what is this\n");
  await rm(path);
  await writeFile(path, "2 foo bar\n");
  await audience.until(3);
  expect(audience.heard).toEqual(["all 1", "all 1 2", "all 2"]);
});

test("starts without a file, and waits for it", async () => {
  const feed = await startFileFeed(options());
  onTestFinished(() => feed.close());
  expect(audience.heard).toEqual([]);
  expect(log.operations).toMatchObject([{ event: "workloads-unread" }]);
  await writeFile(path, "1 foo bar\n");
  await audience.until(1);
});

/** A connection to a feed on a socket. */
async function talk() {
  const socket = connect(path);
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  const answers = createInterface(socket)[Symbol.asyncIterator]();
  const say = async (command: unknown): Promise<unknown> => {
    socket.write(`${typeof command === "string" ? command : JSON.stringify(command)}\n`);
    return JSON.parse((await answers.next()).value ?? "null");
  };
  return { socket, say };
}

const add = { op: "add", uid: "1", namespace: "foo", serviceAccount: "bar" };

test("takes workloads from a socket that only its user may open, and keeps them when the connection ends", async () => {
  const feed = await startSocketFeed(options());
  onTestFinished(() => feed.close());
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  const first = await talk();
  expect(await first.say(add)).toEqual({ ok: true });
  first.socket.end();
  const second = await talk();
  expect(await second.say({ op: "remove", uid: "1" })).toEqual({ ok: true });
  expect(audience.heard).toEqual(["add 1 spiffe://cluster.local/ns/foo/sa/bar", "remove 1"]);
});

test("answers what it does not understand, and goes on", async () => {
  const feed = await startSocketFeed(options());
  onTestFinished(() => feed.close());
  const { say } = await talk();
  for (const command of [
    "",
    "{",
    "[]",
    { ...add, op: "replace" },
    { ...add, more: 1 },
    { op: "add" },
  ]) {
    expect(await say(command)).toEqual({ ok: false, error: "not a command" });
  }
  expect(await say({ ...add, namespace: "../x" })).toEqual({ ok: false, error: "not a workload" });
  audience.isFull = true;
  expect(await say(add)).toEqual({ ok: false, error: "too many workloads" });
  audience.isFull = false;
  expect(await say(add)).toEqual({ ok: true });
});

test("ends a connection that never ends its line", async () => {
  const feed = await startSocketFeed(options());
  onTestFinished(() => feed.close());
  const { socket } = await talk();
  socket.on("error", () => undefined);
  const closed = new Promise((resolve) => socket.on("close", resolve));
  socket.write("x".repeat(100_000));
  await closed;
  expect(audience.heard).toEqual([]);
});
