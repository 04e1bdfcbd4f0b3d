import { once } from "node:events";
import { Writable } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import type { OperationalEvent } from "../../src/foundation/events.ts";
import { LogOutput } from "../../src/program/log-output.ts";
import { startChild } from "../testkit/programs/child-process.ts";

/** A stream that takes lines or fails, as that of a process does: it goes on after a failure. */
class Stream extends Writable {
  text = "";
  failure: Error | undefined;
  /** What a reader that has stalled does with a chunk: nothing, until it reads on. */
  #waiting: (() => void) | undefined;
  isStalled = false;

  constructor() {
    super({ emitClose: false });
  }

  override _write(chunk: Buffer, _: string, done: (error?: Error) => void): void {
    if (!this.failure) this.text += chunk.toString();
    if (this.isStalled) this.#waiting = () => done();
    else done(this.failure);
  }

  readOn(): void {
    this.isStalled = false;
    this.#waiting?.();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    done(error);
    (this as unknown as { _undestroy: () => void })._undestroy();
  }
}

const clock = (): Date => new Date("2026-11-28T12:00:00Z");
const settled = () => new Promise((resolve) => setImmediate(resolve));

function open() {
  const [stdout, stderr] = [new Stream(), new Stream()];
  // A verb's listener, which ends the process.
  stdout.on("error", () => expect.unreachable("the process ended"));
  const streams = { stdout, stderr } as unknown as Parameters<typeof LogOutput.open>[0];
  const output = LogOutput.open(streams, clock);
  const write = async (line: string, level: OperationalEvent["level"] = "info"): Promise<void> => {
    output.write(line, level);
    await settled();
  };
  return { stdout, stderr, output, write };
}

test("lines go to the stream of their level", async () => {
  const { stdout, stderr, write, output } = open();
  await write("a");
  await write("b", "warning");
  await write("c", "error");
  expect([stdout.text, stderr.text]).toEqual(["a\n", "b\nc\n"]);
  expect([output.lostLines(), output.fault()]).toEqual([0, undefined]);
});

test("lines that a stream refuses are counted, and told of once", async () => {
  const code = "ENOSPC";
  const { stdout, stderr, write, output } = open();
  await write("a");
  stdout.failure = Object.assign(new Error(`write ${code}`), { code });
  await write("b");
  await write("c");
  await write("d", "error");
  expect([output.lostLines(), output.fault()]).toEqual([
    2,
    `lines of the log are lost: write ${code}`,
  ]);
  stdout.failure = undefined;
  await write("e");
  await write("f");
  expect(stderr.text).toBe("d\n");
  const [first, empty, told = "", ...rest] = stdout.text.split("\n");
  expect([first, empty, ...rest]).toEqual(["a", "", "e", "f", ""]);
  expect(JSON.parse(told)).toMatchObject({
    time: "2026-11-28T12:00:00.000Z",
    level: "warning",
    event: "log-lines-lost",
    lines: 2,
  });
  expect([output.lostLines(), output.fault()]).toEqual([2, undefined]);
  stderr.failure = new Error("write EIO");
  await write("g", "error");
  expect([output.lostLines(), output.fault()]).toEqual([3, expect.stringContaining("EIO")]);
});

test("a reader that has stalled loses the lines beyond a MiB, and hears of them once it reads on", async () => {
  const { stdout, stderr, write, output } = open();
  stdout.isStalled = true;
  const line = "x".repeat(1023);
  for (let i = 0; i < 1030; i++) output.write(line, "info");
  expect([output.lostLines(), output.fault()]).toEqual([
    5,
    "lines of the log are lost: its reader has stalled",
  ]);
  await write("of another stream", "error");
  expect(stderr.text).toBe("of another stream\n");
  stdout.readOn();
  await settled();
  expect(output.fault()).toBeUndefined();
  await write("after");
  expect(stdout.text.split("\n").filter((each) => each === line)).toHaveLength(1025);
  expect(stdout.text.match(/"lines":\d+/g)).toEqual(['"lines":5']);
  expect(stdout.text.endsWith("\nafter\n")).toBe(true);
  expect([output.lostLines(), output.fault()]).toEqual([5, undefined]);
});

test("lines that are lost again with the line that tells of them are not forgotten", async () => {
  const { stdout, write, output } = open();
  stdout.failure = new Error("write EPIPE");
  output.write("a", "info");
  output.write("b", "info");
  await settled();
  await write("c");
  stdout.failure = undefined;
  output.write("d", "info");
  output.write("e", "info");
  await settled();
  expect(output.lostLines()).toBe(3);
  expect(stdout.text.match(/"lines":\d+/g)).toEqual(['"lines":3']);
});

test("a process whose pipe nobody reads goes on", async () => {
  const { href } = new URL("../../src/program/log-output.ts", import.meta.url);
  const program = `
    import { LogOutput } from ${JSON.stringify(href)};
    const output = LogOutput.open(process, () => new Date());
    for (let i = 0; i < 3000; i++) output.write("x".repeat(1000), "info");
    setImmediate(() => output.write(output.lostLines() + " lost", "error"));
  `;
  const child = startChild(process.execPath, ["--input-type=module", "-e", program]);
  onTestFinished(() => child.send("SIGKILL"));
  child.process.stdout.pause();
  const [said] = await once(child.process.stderr, "data");
  expect(said).toMatch(/^[1-9][0-9]+ lost\n$/);
});
