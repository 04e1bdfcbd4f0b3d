import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { type Exchange, Exchanges } from "../../../src/node/limits/exchanges.ts";
import { type Limit, usualLimits } from "../../../src/node/limits/limits.ts";
import { Turn } from "../../../src/node/limits/turn.ts";
import { refusalOf } from "../../testkit/refusal.ts";

/** Exchanges under these limits, each of which records that it was refused. */
function start(limits: Partial<typeof usualLimits>, isShort = () => false) {
  const reached: Limit[] = [];
  const refused: string[] = [];
  const touched: string[] = [];
  const note = (limit: Limit) => void reached.push(limit);
  const exchanges = new Exchanges({ ...usualLimits, ...limits }, note, Date.now, isShort);
  const begin = (address: string, isAnswering = false) => {
    let isGone = false;
    const exchange: Exchange = {
      address,
      isReceiving: () => false,
      unsentOctets: () => (isAnswering ? 1 : 0),
      abort: () => {},
      refuse: (isUntouched) => {
        isGone = true;
        (isUntouched ? refused : touched).push(address);
      },
      isGone: () => isGone,
    };
    const place = exchanges.begin(exchange);
    const hangUp = () => {
      isGone = true;
      place?.release();
    };
    return { place, hangUp };
  };
  return { begin, refused, touched, reached };
}

const never = () => new Promise<never>(() => {});
/** One turn, which is never overdue, however slow the machine. */
const one = {
  requests_at_work: 1,
  requests_at_work_per_address: 1,
  progress_timeout: 2 ** 31 - 1,
};

/** Collects all garbage once what is due has been done. One collection keeps what came while it marked. */
async function collect(): Promise<void> {
  setFlagsFromString("--expose-gc");
  await new Promise(setImmediate);
  runInNewContext("gc")({ type: "major", flavor: "last-resort" });
}

describe("while every turn is taken by work that never ends,", () => {
  /** Requests that wait for a turn, each with a body, counted as a mebibyte, that only its work refers to. */
  function wait(begin: ReturnType<typeof start>["begin"], address: string, count: number) {
    return Array.from({ length: count }, () => {
      const exchange = begin(address);
      const body = Buffer.alloc(1024);
      exchange.place?.reserve(1024 * 1024);
      const answered = exchange.place?.inTurn(async () => body);
      return { ...exchange, answered, body: new WeakRef(body) };
    });
  }

  test("requests that are refused for lack of memory free their octets at once", async () => {
    const { begin, refused, reached } = start({ ...one, request_memory: 8 });
    void begin("stalled").place?.inTurn(never);
    const flood = wait(begin, "flood", 100);
    expect(refused).toHaveLength(92);
    expect(reached).toEqual(Array(92).fill("request_memory"));
    const evicted = flood.slice(0, 92);
    for (const { answered } of evicted) expect(await answered).toBeUndefined();
    await collect();
    expect(evicted.filter(({ body }) => body.deref() !== undefined)).toEqual([]);
    expect(flood.slice(92).filter(({ body }) => body.deref() === undefined)).toEqual([]);
  });

  test("requests whose callers hang up free their octets at once", async () => {
    const { begin, refused } = start(one);
    void begin("stalled").place?.inTurn(never);
    const gone = wait(begin, "a", 8);
    for (const { hangUp, place } of gone) {
      hangUp();
      // What arrives later counts no more.
      place?.reserve(3 * 1024 * 1024);
    }
    for (const { answered } of gone) expect(await answered).toBeUndefined();
    await collect();
    expect(gone.filter(({ body }) => body.deref() !== undefined)).toEqual([]);
    begin("b").place?.reserve(1);
    expect(refused).toEqual([]);
  });

  test("requests are refused if memory is short, also when it became so while they waited", async () => {
    let isShort = false;
    const { begin, refused, reached } = start(one, () => isShort);
    const { promise: stalled, resolve: end } = Promise.withResolvers<void>();
    void begin("a").place?.inTurn(() => stalled);
    const waiting = begin("b").place?.inTurn(never);
    await Promise.resolve();
    isShort = true;
    expect(begin("c").place).toBeUndefined();
    end();
    expect(await waiting).toBeUndefined();
    expect([refused, reached]).toEqual([
      ["c", "b"],
      ["memory", "memory"],
    ]);
  });

  test("requests whose callers have hung up already do not enter the queue", async () => {
    const { begin, refused } = start(one);
    void begin("stalled").place?.inTurn(never);
    const { place, hangUp } = begin("a");
    hangUp();
    expect(await place?.inTurn(never)).toBeUndefined();
    expect(refused).toEqual([]);
  });

  test("requests whose callers hang up leave their places in the queue to others", async () => {
    const { begin, refused } = start({ ...one, streams: 4 });
    const { promise: stalled, resolve: end } = Promise.withResolvers<void>();
    void begin("a").place?.inTurn(() => stalled);
    for (let i = 0; i < 40; i++) {
      const { place, hangUp } = begin("a");
      void place?.inTurn(never);
      hangUp();
    }
    const last = begin("a").place?.inTurn(async () => "answered");
    end();
    expect(await last).toBe("answered");
    expect(refused).toEqual([]);
  });
});

describe("a request that waits for somebody else's answer", () => {
  function waitingAside() {
    const started = start({ ...one, streams: 3 });
    const answer = Promise.withResolvers<string>();
    const { place, hangUp } = started.begin("a");
    const answered = place?.inTurn(() => Turn.aside(() => Turn.aside(() => answer.promise)));
    return { ...started, answer, answered, hangUp };
  }

  test("gives up its turn meanwhile, and takes another one for the rest of its work", async () => {
    const { begin, answer, answered } = waitingAside();
    const other = Promise.withResolvers<string>();
    const begun = Promise.withResolvers<void>();
    const second = begin("a").place?.inTurn(() => {
      begun.resolve();
      return other.promise;
    });
    await begun.promise;
    answer.resolve("late");
    await new Promise(setImmediate);
    const third = begin("a").place?.inTurn(async () => "third");
    other.resolve("second");
    expect(await Promise.all([answered, second, third])).toEqual(["late", "second", "third"]);
  });

  test("ends when its caller hangs up, whatever the answer", async () => {
    const { begin, answer, answered, hangUp } = waitingAside();
    await new Promise(setImmediate);
    hangUp();
    answer.resolve("late");
    expect(await refusalOf(() => answered)).toEqual({ reason: "request-abandoned" });
    expect(await begin("a").place?.inTurn(async () => "next")).toBe("next");
  });
});

test("a wait for an answer outside of any request has no turn to give up", async () => {
  expect(await Turn.aside(async () => "answer")).toBe("answer");
});

describe("a request that loses its place to another says whether work on it had begun:", () => {
  test.each([
    ["no, before its turn", false, ["x"], []],
    ["yes, once its answer is made and its caller reads", true, [], ["x"]],
  ])("%s", async (_, hasAnswer, refusedThen, touchedThen) => {
    const { begin, refused, touched } = start({ streams: 1 });
    const { place } = begin("x", hasAnswer);
    if (hasAnswer) await place?.inTurn(async () => "answer");
    begin("h");
    expect([refused, touched]).toEqual([refusedThen, touchedThen]);
  });

  test("yes, once it has passed its turn on, as a long poll does", async () => {
    const { begin, refused, touched } = start({ ...one, streams: 1 });
    let yieldTurn = () => {};
    void begin("x").place?.inTurn((pass) => {
      yieldTurn = pass;
      return never();
    });
    await Promise.resolve();
    expect(begin("h").place).toBeUndefined();
    yieldTurn();
    const { place } = begin("h");
    expect(await place?.inTurn(async () => "answered")).toBe("answered");
    expect([refused, touched]).toEqual([["h"], ["x"]]);
  });
});

test("a new address takes the place of a request of the next largest address, where all those of the largest are at work", async () => {
  const { begin, refused } = start({ streams: 5 });
  const busy = [begin("x"), begin("x"), begin("x")];
  for (const { place } of busy) void place?.inTurn(never);
  await Promise.resolve();
  begin("y");
  begin("y");
  expect(begin("h").place).toBeDefined();
  expect(refused).toEqual(["y"]);
});

test("beyond the bound of memory, the next largest address loses a request, where all those of the largest are at work", async () => {
  const { begin, refused } = start({ request_memory: 1 });
  const x = begin("x");
  x.place?.reserve(600_000);
  void x.place?.inTurn(never);
  await Promise.resolve();
  begin("y");
  begin("y").place?.reserve(440_000);
  begin("h").place?.reserve(20_000);
  expect(refused).toEqual(["y"]);
});

test("two networks with the same number of requests take no places from each other", () => {
  const { begin, refused } = start({ streams: 4 });
  for (const address of ["192.0.2.1", "192.0.2.1", "198.51.100.1", "198.51.100.1"]) begin(address);
  for (let i = 0; i < 3; i++) begin("198.51.100.1");
  expect(refused).toEqual(Array(3).fill("198.51.100.1"));
  begin("203.0.113.1");
  expect(refused.at(-1)).toBe("192.0.2.1");
});

describe("strangers in one network, each at an address of its own,", () => {
  const stranger = (i: number): string => `2001:db8:1:${i}::/64`;

  test("take places from each other, and none from an address of another network", () => {
    const { begin, refused } = start({ streams: 8 });
    for (let i = 0; i < 3; i++) begin("192.0.2.1");
    for (let i = 0; i < 40; i++) begin(stranger(i));
    expect(refused).toHaveLength(35);
    expect(refused).not.toContain("192.0.2.1");
  });

  test("lose requests to each other beyond the bound of memory, and cost an address of another network none", () => {
    const { begin, refused } = start({ request_memory: 1 });
    begin("192.0.2.1").place?.reserve(400_000);
    for (let i = 0; i < 10; i++) begin(stranger(i)).place?.reserve(200_000);
    expect(refused).toEqual([0, 1, 2, 3, 4, 5, 6].map(stranger));
  });

  test("take a place from an address that has more requests than all of them together", () => {
    const { begin, refused } = start({ streams: 4 });
    for (let i = 0; i < 3; i++) begin("192.0.2.1");
    begin(stranger(1));
    begin(stranger(2));
    expect(refused).toEqual(["192.0.2.1"]);
  });
});

test.each<[string, boolean, readonly number[], boolean]>([
  ["whose request does not arrive", true, [0, 0, 0], true],
  ["that does not read its answer", false, [5, 5, 5], true],
  ["that reads on within its time", false, [5, 5, 3], false],
  ["that waits for this process", false, [0, 0, 0], false],
])(
  "a caller %s loses its place when its time is up, if it is the cause",
  (_, isReceiving, unsent, isAborted) => {
    let now = 0;
    let aborted = 0;
    const limits = { ...usualLimits, progress_timeout: 1000 };
    const exchanges = new Exchanges(
      limits,
      () => {},
      () => now,
      () => false,
    );
    exchanges.begin({
      address: "192.0.2.1",
      isReceiving: () => isReceiving,
      unsentOctets: () => unsent[now / 500 - 2] ?? 0,
      abort: () => void aborted++,
      refuse: () => {},
      isGone: () => false,
    });
    for (now = 1000; now <= 2000; now += 500) exchanges.sweep();
    expect([aborted > 0, exchanges.count]).toEqual([isAborted, isAborted ? 0 : 1]);
  },
);
