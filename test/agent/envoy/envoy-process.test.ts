import { expect, test } from "vitest";
import { EnvoyAdmin } from "../../../src/agent/envoy/envoy-admin.ts";
import { EnvoyProcess } from "../../../src/agent/envoy/envoy-process.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

/** Supervises a script of Node in place of Envoy. */
function supervise(script: string, adminUrl?: string, command = process.execPath) {
  const log = createEventRecorder();
  const program = new EnvoyProcess({
    command,
    arguments: ["-e", script],
    admin: adminUrl === undefined ? undefined : new EnvoyAdmin(adminUrl, hangMilliseconds),
    drain: { kind: "fixed", milliseconds: 1 },
    restarts: { maximum: 2, firstWaitMilliseconds: 1 },
    log,
  });
  const { until, operations } = log;
  const count = (name: string): number => operations.filter(({ event }) => event === name).length;
  return { program, until, count, operations };
}

/** Starts a server that records requests: an admin interface, or the receiver of a script's messages. */
async function startRecorder() {
  const requests: string[] = [];
  let wake = (): void => undefined;
  const { origin: url } = await startLoopbackServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    response.end();
    wake();
  });
  const received = async (times: number): Promise<readonly string[]> => {
    while (requests.length < times) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return requests;
  };
  return { url, received };
}

const forever = "setInterval(() => {}, 1000)";

// For a signal and a missing program the codes are those of a shell.
test.each([
  ["process.exit(0)", process.execPath, 0, 1],
  ["process.exit(3)", process.execPath, 3, 3],
  ['process.kill(process.pid, "SIGKILL")', process.execPath, 137, 3],
  ["", "/nowhere/envoy", 127, 0],
])("%s of %s ends with %i after %i starts", async (script, command, code, starts) => {
  const { program, count, operations } = supervise(script, undefined, command);
  expect(await program.run()).toBe(code);
  expect(count("proxy-started")).toBe(starts);
  expect(count("proxy-unstartable")).toBe(starts === 0 ? 1 : 0);
  const restarts = operations.filter(({ event }) => event === "proxy-restarting");
  const restart = { level: "error", code, milliseconds: expect.any(Number) };
  expect(restarts).toMatchObject(starts === 3 ? [restart, restart] : []);
});

test("drains a program before it ends it, and does not restart it", async () => {
  const admin = await startRecorder();
  const { program, until, count } = supervise(forever, admin.url);
  const running = program.run();
  await until("proxy-started");
  await program.end();
  expect(await running).toBe(143);
  expect(await admin.received(1)).toEqual(["POST /drain_listeners?graceful"]);
  expect(count("proxy-started")).toBe(1);
});

test("ends a program whose admin interface does not answer", async () => {
  const { program, until, count } = supervise(forever, "http://127.0.0.1:1");
  const running = program.run();
  await until("proxy-started");
  await program.end();
  expect(await running).toBe(143);
  expect(count("proxy-undrained")).toBe(1);
});

test("kills a program that ignores SIGTERM at the third call", async () => {
  const recorder = await startRecorder();
  const { program } = supervise(
    `process.on("SIGTERM", () => {}); fetch("${recorder.url}/ready", { method: "POST" }); ${forever}`,
  );
  const running = program.run();
  await recorder.received(1);
  for (let times = 0; times < 3; times++) await program.end();
  expect(await running).toBe(137);
});

test("forwards signals", async () => {
  const recorder = await startRecorder();
  const { program } = supervise(
    `process.on("SIGUSR2", () => process.exit(0)); fetch("${recorder.url}/ready"); ${forever}`,
  );
  const running = program.run();
  await recorder.received(1);
  program.signal("SIGUSR2");
  expect(await running).toBe(0);
});

test("is not ready before its program runs, nor while that drains", async () => {
  const admin = await startRecorder();
  const { program, until } = supervise(forever, admin.url);
  expect(await program.faults()).toEqual(["the proxy does not run"]);
  const running = program.run();
  await until("proxy-started");
  // The recorder answers like an Envoy that counts nothing.
  expect(await program.faults()).toEqual(["Envoy is not live but in no known state"]);
  await program.drain();
  expect(await program.faults()).toEqual(["the proxy drains"]);
  await program.end();
  await running;
});

test("does not drain again after a drain that was asked for, nor when it is told to quit", async () => {
  for (const act of ["drain", "quit"] as const) {
    const admin = await startRecorder();
    const { program, until } = supervise(forever, admin.url);
    const running = program.run();
    await until("proxy-started");
    await program[act]();
    // To quit is to end: one more call could already be the one that kills.
    if (act === "drain") await program.end();
    expect(await running).toBe(143);
    const asked = act === "drain" ? ["POST /drain_listeners?graceful&skip_exit"] : [];
    expect(await admin.received(0)).toEqual(asked);
  }
});
