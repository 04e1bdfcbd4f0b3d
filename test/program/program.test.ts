import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import type { EndingSignal } from "../../src/cli/terminal/signals.ts";
import type { Lifetime } from "../../src/program/lifetime.ts";
import { Program, type ProgramContext, type RunningProgram } from "../../src/program/program.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";

const address = { address: "127.0.0.1", family: "IPv4", port: 15014 };
const ready = { ready: true, reasons: [] };

/** Other files share this process, and may have left some. */
let listenersBefore = 0;
beforeEach(() => {
  listenersBefore = process.listenerCount("SIGHUP");
});

function setUp() {
  const log = createEventRecorder();
  const context: ProgramContext = { log, clock: () => new Date() };
  const ended: string[] = [];
  const opens = (life: Lifetime, name: string): void =>
    life.endsWith(name, () => void ended.push(name));
  const port = async () => ({
    address,
    close: async () => void ended.push("monitoring"),
  });
  return { log, context, ended, opens, port };
}

test("what anybody causes by handshakes has a line in a minute for an address, for ten, and counts whole", async () => {
  const { log, port } = setUp();
  let now = 0;
  const clock = () => new Date(now);
  const program = await Program.begin({ log, clock }, async ({ monitor, ...rest }) => {
    return { ...rest, monitoringAddress: await monitor(port()) };
  });
  onTestFinished(() => program.close(0));
  const refuse = (peer: string, event: "client-certificate-refused" | "watch-failed") =>
    program.log.operation({ event, level: "warning", peer });
  for (let i = 0; i < 30; i++) refuse(`127.0.0.${i % 15}`, "client-certificate-refused");
  for (let i = 0; i < 30; i++) refuse("127.0.0.1", "watch-failed");
  const lines = (event: string) => log.operations.filter((each) => each.event === event).length;
  expect([lines("client-certificate-refused"), lines("watch-failed")]).toEqual([10, 30]);
  now = 60_000;
  refuse("127.0.0.14", "client-certificate-refused");
  expect(lines("client-certificate-refused")).toBe(11);
  expect(await program.registry.metrics()).toContain(
    'rampart_operations_total{event="client-certificate-refused",level="warning"} 31',
  );
});

test("the monitoring port closes last, although it opened after the work", async () => {
  const { context, ended, opens, port } = setUp();
  const program = await Program.begin(context, async ({ life, monitor }) => {
    opens(life, "work");
    const monitoringAddress = await monitor(port());
    opens(life, "callers");
    return { monitoringAddress };
  });
  expect(program.monitoringAddress).toBe(address);
  await program.close(0);
  expect(ended).toEqual(["callers", "work", "monitoring"]);
});

test("a begin that fails half-way ends what it has opened, in reverse order", async () => {
  const { context, ended, opens, port } = setUp();
  const beginning = Program.begin(context, async ({ life, monitor }) => {
    opens(life, "store");
    opens(life, "work");
    await monitor(port());
    opens(life, "guard");
    throw new Error("the port is taken");
  });
  await expect(beginning).rejects.toThrow("the port is taken");
  expect(ended).toEqual(["guard", "work", "store", "monitoring"]);
});

test("no program is ready while it ends, and says why, in its gauge too", async () => {
  const { context } = setUp();
  let beginning: Program | undefined;
  const program = await Program.begin(context, async (given) => {
    beginning = given;
    Program.addReadyGauge(given, "1 when it works.", () => given.withLife(ready));
    return {};
  });
  const gauge = async () => beginning?.registry.getSingleMetricAsString("rampart_ready");
  expect(beginning?.withLife(ready)).toEqual(ready);
  expect(await gauge()).toMatch(/rampart_ready 1$/);
  await program.close(0);
  expect(beginning?.withLife(ready)).toEqual({ ready: false, reasons: ["the program is ending"] });
  expect(await gauge()).toMatch(/rampart_ready 0$/);
});

/** A program under `run`, whose configuration and begin take as long as a test lets them. */
function running(started?: Promise<Partial<RunningProgram<number>>>) {
  const { log, context, ended } = setUp();
  const signal = Promise.withResolvers<EndingSignal>();
  let starts = 0;
  const read = Promise.withResolvers<object>();
  const source = {
    read: () => read.promise as Promise<Record<string, unknown>>,
    state: async () => "unchanged",
    parse: () => 1,
    restartKeys: [],
  };
  const start = async (): Promise<RunningProgram<number>> => {
    starts++;
    const close = async () => void ended.push("program");
    return { monitoringAddress: address, reconfigure: async () => [], close, ...(await started) };
  };
  const done = Program.run({ source, start, context }, signal.promise);
  const details = (event: string) =>
    log.operations.filter((each) => each.event === event).map(({ detail }) => detail);
  const hasStarted = async (): Promise<void> => {
    while (starts === 0) await new Promise(setImmediate);
  };
  return { read, signal, done, ended, details, hasStarted, starts: () => starts };
}

test("a program says where it listens, runs until a signal comes, and ends", async () => {
  const rpcs = { ...address, port: 15012 };
  const program = running(Promise.resolve({ address: Promise.resolve(rpcs) }));
  program.read.resolve({});
  await program.hasStarted();
  while (program.details("listening").length < 2) await new Promise(setImmediate);
  expect(program.details("listening")).toEqual([
    "monitoring on 127.0.0.1:15014",
    "gRPC on 127.0.0.1:15012",
  ]);
  expect(program.ended).toEqual([]);
  program.signal.resolve("SIGTERM");
  await program.done;
  expect(program.ended).toEqual(["program"]);
  expect(program.details("ending")).toEqual([expect.stringMatching(/^SIGTERM: /)]);
  expect(process.listenerCount("SIGHUP")).toBe(listenersBefore);
});

test("a signal while the configuration is read starts nothing", async () => {
  const program = running();
  program.signal.resolve("SIGINT");
  await new Promise(setImmediate);
  program.read.resolve({});
  await program.done;
  expect(program.starts()).toBe(0);
});

test("a signal while a program begins ends it once it has begun, and nobody hears that it listens", async () => {
  const begun = Promise.withResolvers<object>();
  const program = running(begun.promise);
  program.read.resolve({});
  await program.hasStarted();
  program.signal.resolve("SIGTERM");
  await new Promise(setImmediate);
  expect(program.ended).toEqual([]);
  begun.resolve({});
  await program.done;
  expect(program.ended).toEqual(["program"]);
  expect(program.details("listening")).toEqual([]);
});

test("a program that gets no address ends, and tells why", async () => {
  const address = Promise.reject(new Error("the port is taken"));
  address.catch(() => {});
  const program = running(Promise.resolve({ address }));
  program.read.resolve({});
  await expect(program.done).rejects.toThrow("the port is taken");
  expect(program.ended).toEqual(["program"]);
});

test("a program that cannot begin leaves nothing behind, and tells why", async () => {
  const program = running(Promise.reject(new Error("no store")));
  program.read.resolve({});
  await expect(program.done).rejects.toThrow("no store");
  expect(process.listenerCount("SIGHUP")).toBe(listenersBefore);
});

test("a second signal ends a program whose end hangs", async () => {
  const module = (name: string) => JSON.stringify(import.meta.resolve(`../../src/${name}`));
  const script = `
    import { Program } from ${module("program/program.ts")};
    import { Signals } from ${module("cli/terminal/signals.ts")};
    const say = ({ event }) => console.log(event);
    const never = new Promise(() => setInterval(() => {}, 1e6));
    const program = {
      source: { read: async () => ({}), state: async () => "", parse: () => 1, restartKeys: [] },
      start: async () => ({
        monitoringAddress: { address: "127.0.0.1", port: 1 },
        reconfigure: async () => [],
        close: () => never,
      }),
      context: { log: { operation: say }, clock: () => new Date() },
    };
    using watch = Signals.watch();
    await Program.run(program, watch.signal);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "pipe" });
  onTestFinished(() => void child.kill("SIGKILL"));
  const exit = once(child, "exit");
  for await (const line of createInterface(child.stdout)) {
    if (["listening", "ending"].includes(line)) child.kill("SIGTERM");
  }
  expect(await exit).toEqual([null, "SIGTERM"]);
});
