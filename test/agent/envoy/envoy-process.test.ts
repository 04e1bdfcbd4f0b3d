import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { EnvoyProcess } from "../../../src/agent/envoy/envoy-process.ts";
import { createEventRecorder } from "../../testkit/event-recorder.ts";

/** A program that Node runs in the place of Envoy, and what was logged of it. */
function supervise(script: string, adminUrl?: string) {
  const log = createEventRecorder();
  const program = new EnvoyProcess({
    command: process.execPath,
    arguments: ["-e", script],
    adminUrl,
    drainMilliseconds: 1,
    restarts: { most: 2, firstWaitMilliseconds: 1 },
    log,
  });
  const { until, operations } = log;
  const count = (name: string): number => operations.filter(({ event }) => event === name).length;
  return { program, until, count };
}

/** An admin interface, or whatever else a program wants to tell something. */
async function startAdmin() {
  const requests: string[] = [];
  let wake = (): void => undefined;
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    response.end();
    wake();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const asked = async (times: number): Promise<readonly string[]> => {
    while (requests.length < times) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return requests;
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

const forever = "setInterval(() => {}, 1000)";

test("ends with a program that is done", async () => {
  const { program, count } = supervise("process.exit(0)");
  expect(await program.run()).toBe(0);
  expect(count("proxy-started")).toBe(1);
});

test("starts a program that crashes again, until its budget is used up, and ends with its code", async () => {
  const { program, count } = supervise("process.exit(3)");
  expect(await program.run()).toBe(3);
  expect(count("proxy-started")).toBe(3);
});

test("counts a signal as a crash, with a shell's number for it", async () => {
  const { program, count } = supervise('process.kill(process.pid, "SIGKILL")');
  expect(await program.run()).toBe(137);
  expect(count("proxy-started")).toBe(3);
});

test("says of a program that is not there what a shell says", async () => {
  const log = createEventRecorder();
  const program = new EnvoyProcess({
    command: "/nowhere/envoy",
    arguments: [],
    adminUrl: undefined,
    drainMilliseconds: 1,
    restarts: { most: 2, firstWaitMilliseconds: 1 },
    log,
  });
  expect(await program.run()).toBe(127);
  expect(log.operations.map(({ event }) => event)).toEqual(["proxy-unstartable"]);
});

test("drains a program before it ends it, and does not start it again", async () => {
  const admin = await startAdmin();
  const { program, until, count } = supervise(forever, admin.url);
  const running = program.run();
  await until("proxy-started");
  await program.end();
  expect(await running).toBe(143);
  expect(await admin.asked(1)).toEqual(["POST /drain_listeners?graceful"]);
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

test("kills a program that will not end, when it is told a third time", async () => {
  const deaf = await startAdmin();
  const { program } = supervise(
    `process.on("SIGTERM", () => {}); fetch("${deaf.url}/deaf", { method: "POST" }); ${forever}`,
  );
  const running = program.run();
  await deaf.asked(1);
  for (let times = 0; times < 3; times++) await program.end();
  expect(await running).toBe(137);
});

test("passes signals on", async () => {
  const ready = await startAdmin();
  const { program } = supervise(
    `process.on("SIGUSR2", () => process.exit(0)); fetch("${ready.url}/ready"); ${forever}`,
  );
  const running = program.run();
  await ready.asked(1);
  program.signal("SIGUSR2");
  expect(await running).toBe(0);
});
