import { EventEmitter } from "node:events";
import type { Http2Session, ServerHttp2Stream } from "node:http2";
import { create } from "@bufbuild/protobuf";
import { createContextValues, type HandlerContext } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Sessions, takePermit, UnreadResponses } from "../../../src/agent/sockets/socket-bounds.ts";
import { snapshots } from "../../../src/agent/sockets/workload-api.ts";
import { Subscribers } from "../../../src/agent/subscribers.ts";
import { JWTBundlesResponseSchema } from "../../../src/gen/spiffe/workload_pb.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

/** A connection, and as many streams of it as are asked for. */
function connection(room: UnreadResponses) {
  const session = { isOver: false, destroy: () => Object.assign(session, { isOver: true }) };
  const take = () => {
    const stream = Object.assign(new EventEmitter(), { session, destroyed: false });
    return { stream, leave: room.of(stream as unknown as ServerHttp2Stream)() };
  };
  return { session, take };
}

describe("answers that a peer has not read", () => {
  test("end its connection after ten seconds, and no sooner", async () => {
    const { session, take } = connection(new UnreadResponses());
    await take().leave;
    await vi.advanceTimersByTimeAsync(9_999);
    expect(session.isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(session.isOver).toBe(true);
  });

  test.each<[string, (taken: ReturnType<ReturnType<typeof connection>["take"]>) => unknown]>([
    ["it has read them", async ({ leave }) => (await leave)()],
    ["their stream has closed", ({ stream }) => stream.emit("close")],
  ])("end no connection once %s", async (_, end) => {
    const { session, take } = connection(new UnreadResponses());
    const taken = take();
    await taken.leave;
    await end(taken);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(session.isOver).toBe(false);
  });

  test("are not made for a stream that hears of its end after another of its connection", async () => {
    const { take } = connection(new UnreadResponses());
    const [first, second, waiting] = [take(), take(), take()];
    await Promise.all([first.leave, second.leave]);
    first.stream.emit("close");
    // All that follows at once.
    for (let i = 0; i < 50; i++) await undefined;
    waiting.stream.destroyed = true;
    await expect(waiting.leave).rejects.toThrow("the caller has gone");
  });

  test("are 64 of all connections, and the next waits", async () => {
    const room = new UnreadResponses();
    const [first] = await Promise.all(
      Array.from({ length: 32 }, () => connection(room)).map(async ({ take }) => {
        const leave = await take().leave;
        await take().leave;
        return leave;
      }),
    );
    let isTaken = false;
    const last = connection(room).take();
    void last.leave.then(() => {
      isTaken = true;
    });
    await vi.advanceTimersByTimeAsync(0);
    expect(isTaken).toBe(false);
    first?.();
    await last.leave;
    expect(isTaken).toBe(true);
  });
});

test("a state of the Workload API waits for room, and gives it back once the next one is read", async () => {
  const room = Promise.withResolvers<() => void>();
  const values = createContextValues().set(takePermit, () => room.promise);
  const context = { signal: new AbortController().signal, values } as HandlerContext;
  const state = create(JWTBundlesResponseSchema);
  const states = snapshots(
    JWTBundlesResponseSchema,
    [new Subscribers()],
    async () => state,
    context,
  );
  const seen: unknown[] = [];
  const read = states.next().then(({ value }) => seen.push(value));
  await vi.advanceTimersByTimeAsync(0);
  expect(seen).toEqual([]);
  room.resolve(() => seen.push("left"));
  await read;
  expect(seen).toEqual([state]);
  void states.next();
  await vi.advanceTimersByTimeAsync(0);
  expect(seen).toEqual([state, "left"]);
});

/** The connections of a socket, and for each number of streams a connection that has them. */
function connections(
  streams: readonly number[],
  heap = { used_heap_size: 0, heap_size_limit: 100 },
) {
  const sessions = new Sessions(() => heap);
  const all = streams.map((count) => {
    const session = Object.assign(new EventEmitter(), {
      ...{ isOver: false, destroy: () => Object.assign(session, { isOver: true }) },
    });
    sessions.add(session as unknown as Http2Session);
    const begin = (): ServerHttp2Stream => {
      const stream = Object.assign(new EventEmitter(), { session }) as unknown as ServerHttp2Stream;
      sessions.count(stream);
      return stream;
    };
    return { session, begin, begun: Array.from({ length: count }, begin) };
  });
  return { sessions, all };
}

test.each([
  [81, [1]],
  [79, []],
])("a stream at %i percent of the heap ends of three connections: %j", (percent, ended) => {
  const heap = { used_heap_size: 0, heap_size_limit: 100 };
  const { all } = connections([1, 3, 2], heap);
  heap.used_heap_size = percent;
  all[0]?.begin();
  expect(endedOf(all)).toEqual(ended);
});

/** The numbers of connections that have ended. */
const endedOf = (all: ReturnType<typeof connections>["all"]): number[] =>
  all.flatMap(({ session }, i) => (session.isOver ? [i] : []));

const namesOf = (count: number, prefix = "spiffe://"): string[] =>
  Array.from({ length: count }, (_, i) => `${prefix}${i}`);

test.each([
  ["all have streams: the newest goes, and a proxy of long standing stays", 1, 511],
  ["one has no stream, and goes", 0, 200],
])("of 512 connections, %s once another one comes", (_, streams, ended) => {
  const counts = Array.from({ length: 513 }, (_, i) => (i === 200 ? streams : 1));
  const { all } = connections(counts);
  expect(endedOf(all)).toEqual([ended]);
});

test.each([
  ["1,025 names", namesOf(1_025)],
  ["five names of files", namesOf(5, "file-root:/")],
  ["a name of 8,193 characters", ["a".repeat(8_193)]],
])("a stream may not have %s", (_, names) => {
  const { sessions, all } = connections([1]);
  const [stream] = all[0]?.begun ?? [];
  if (!stream) throw new Error("no stream");
  expect(() => sessions.hold(stream, names)).toThrow("too many names, or too long ones");
  sessions.hold(stream, [...namesOf(1_020), ...namesOf(4, "file-root:/")]);
});

test("the connection with most names goes once all have too many, and a stream weighs by those that it has now", () => {
  const { sessions, all } = connections([1, 8]);
  const streams = all.flatMap(({ begun }) => begun);
  for (let i = 0; i < 20; i++)
    for (const stream of streams.slice(0, -1)) sessions.hold(stream, namesOf(900));
  expect(endedOf(all)).toEqual([]);
  for (const stream of streams.slice(-1)) sessions.hold(stream, namesOf(900));
  expect(endedOf(all)).toEqual([1]);
});

test("streams that have ended weigh nothing, although they no longer know their connection", () => {
  const { all } = connections([8_000, 100]);
  for (const stream of all[0]?.begun ?? []) {
    Object.assign(stream, { session: undefined });
    stream.emit("close");
  }
  for (let i = 0; i < 8_000; i++) all[0]?.begin();
  expect(endedOf(all)).toEqual([]);
});

test("a message weighs, also one that has not come to its end, until the next one comes", () => {
  const { sessions, all } = connections([1, 1]);
  const [one, other] = all.map(({ begun: [stream] }) => stream);
  if (!one || !other) throw new Error("no stream");
  for (let i = 0; i < 100; i++) {
    sessions.receive(one, 2 ** 20);
    sessions.hold(one, ["default"]);
  }
  expect(endedOf(all)).toEqual([]);
  for (let i = 0; i < 16; i++) sessions.receive(other, 2 ** 20);
  expect(endedOf(all)).toEqual([1]);
});
