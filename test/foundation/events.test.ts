import { expect, test } from "vitest";
import { type OperationalEvent, OperationLog } from "../../src/foundation/events.ts";
import { sparing } from "../../src/foundation/sparing-log.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";
import { parseLogLine } from "../testkit/log/log-lines.ts";

const time = new Date("2026-11-21T12:00:00+02:00");

function written(event: OperationalEvent): {
  readonly line: string;
  readonly level: OperationalEvent["level"];
} {
  const lines: { line: string; level: OperationalEvent["level"] }[] = [];
  const log = OperationLog.create(
    () => time,
    (line, level) => lines.push({ line, level }),
  );
  log.operation(event);
  expect(lines).toHaveLength(1);
  return lines[0] ?? { line: "", level: "error" };
}

test.each<OperationalEvent["level"]>(["info", "warning", "error"])(
  "writes an event of level %s as one line",
  (level) => {
    const { line, level: writtenAs } = written({
      event: "store-unreachable",
      level,
      detail: "why",
    });
    expect(writtenAs).toBe(level);
    expect(line).toBe(
      `{"time":"2026-11-21T10:00:00.000Z","level":"${level}","event":"store-unreachable","detail":"why"}`,
    );
    parseLogLine(line);
  },
);

test("leaves out a detail that is undefined, and keeps what is false, zero or empty", () => {
  const { line } = written({
    event: "proxy-started",
    level: "info",
    pid: undefined,
    retried: false,
    code: 0,
    detail: "",
  });
  expect(parseLogLine(line)).toEqual({
    time: time.toISOString(),
    level: "info",
    event: "proxy-started",
    retried: false,
    code: 0,
    detail: "",
  });
});

test("keeps a line break within its one line", () => {
  const { line } = written({ event: "rpc-failed", level: "warning", detail: "a\nb\r\u2028" });
  expect(line).not.toMatch(/[\n\r]/);
  expect(parseLogLine(line)).toMatchObject({ detail: "a\nb\r\u2028" });
});

test("takes neither a time nor a foreign level from an event", () => {
  // @ts-expect-error: the writer of the line sets its time.
  const timed: OperationalEvent = { event: "x", level: "info", time: "yesterday" };
  // @ts-expect-error: there is one vocabulary of levels.
  const foreign: OperationalEvent = { event: "x", level: "warn" };
  // @ts-expect-error: a value that JSON writes as an object is no detail.
  const nested: OperationalEvent = { event: "x", level: "info", cause: new Error("y") };
  expect([timed, foreign, nested]).toHaveLength(3);
});

test("of a caller a log has one line of an event in a minute, of all callers so many, and any number of nobody", () => {
  const log = createEventRecorder();
  const spared = sparing(
    log,
    () => time,
    2,
    ({ caller }) => caller,
  );
  for (const caller of [undefined, undefined, undefined, "a", "a", "b", "c"])
    spared.operation({ event: "sds-rejected", level: "warning", caller });
  expect(log.operations.map(({ caller }) => caller)).toEqual([...Array(3), "a", "b"]);
});

test("a log has the first 60 lines of an event in a minute, and says so", () => {
  const log = createEventRecorder();
  let now = new Date(30_000);
  const spared = sparing(log, () => now);
  for (let i = 0; i < 100; i++) {
    spared.operation({ event: "sds-rejected", level: "warning", detail: "no" });
    if (i === 0) spared.operation({ event: "rpc-failed", level: "warning" });
  }
  expect(log.operations).toHaveLength(61);
  expect(log.operations.at(-1)?.detail).toBe("no (the last of this minute that is logged)");
  now = new Date(60_000);
  spared.operation({ event: "sds-rejected", level: "warning", detail: "no" });
  expect(log.operations.at(-1)?.detail).toBe("no");
});
