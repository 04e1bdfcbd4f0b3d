import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { renameSync, symlinkSync } from "node:fs";
import { chmod, mkdir, stat, symlink, writeFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { connect, createServer, type Server } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import type { HandlerContext } from "@connectrpc/connect";
import { expect, onTestFinished, test } from "vitest";
import { listenOnSocket, serveOnSocket } from "../../../src/agent/sockets/unix-socket.ts";
import { ConfigurationError } from "../../../src/foundation/errors.ts";
import { Health } from "../../../src/gen/grpc/health/v1/health_pb.ts";
import { grpcFrame } from "../../contract/rpc-calls.ts";
import { serveRpcs } from "../../testkit/agent/sds-client.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

function server(): Server {
  const created = createServer((socket) => socket.end());
  onTestFinished(() => void created.close());
  return created;
}

/** A client's connection, which ends with the test. */
function openSession(path: string) {
  const session = connectHttp2("http://agent", { createConnection: () => connect(path) });
  onTestFinished(() => session.destroy());
  return session;
}

const healthCall = {
  ":method": "POST",
  ":path": "/grpc.health.v1.Health/Check",
  "content-type": "application/grpc",
  te: "trailers",
};

test("creates its folder, and sets the mode of the socket", async () => {
  const folder = `${await temporaryFolder()}/a/b`;
  await listenOnSocket(server(), `${folder}/socket`, 0o600);
  expect((await stat(`${folder}/socket`)).mode & 0o777).toBe(0o600);
  expect((await stat(folder)).mode & 0o777).toBe(0o750);
});

test("lets only its owner and its group connect in a folder that every user may enter", async () => {
  const folder = await temporaryFolder();
  await chmod(folder, 0o755);
  expect(await listenOnSocket(server(), `${folder}/open`, 0o666)).toBe(0o660);
  expect((await stat(`${folder}/open`)).mode & 0o777).toBe(0o660);
});

test.each([0o700, 0o750])(
  "lets everybody connect who may enter a folder of mode %o",
  async (mode) => {
    const folder = await temporaryFolder();
    await chmod(folder, mode);
    expect(await listenOnSocket(server(), `${folder}/socket`, 0o666)).toBe(0o666);
  },
);

test("counts the folders above, and those behind a link", async () => {
  const [closed, open] = [await temporaryFolder(), await temporaryFolder()];
  await mkdir(`${closed}/inner`);
  await chmod(`${closed}/inner`, 0o755);
  expect(await listenOnSocket(server(), `${closed}/inner/socket`, 0o666)).toBe(0o666);
  await chmod(open, 0o755);
  await symlink(open, `${closed}/link`);
  expect(await listenOnSocket(server(), `${closed}/link/socket`, 0o666)).toBe(0o660);
});

test("replaces the socket of a dead process", async () => {
  const path = `${await temporaryFolder()}/socket`;
  const listen = `require("net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`;
  spawnSync(process.execPath, ["-e", listen]);
  expect((await stat(path)).isSocket()).toBe(true);
  await listenOnSocket(server(), path, 0o600);
  await once(connect(path), "connect");
});

test("replaces a file that is no socket", async () => {
  const path = `${await temporaryFolder()}/socket`;
  await writeFile(path, "");
  await listenOnSocket(server(), path, 0o600);
  await once(connect(path), "connect");
});

test("leaves a file alone to which somebody links in place of the socket", async () => {
  const folder = await temporaryFolder();
  const victim = `${folder}/victim`;
  await writeFile(victim, "", { mode: 0o600 });
  const listening = server().once("listening", () => {
    renameSync(`${folder}/socket`, `${folder}/stolen`);
    symlinkSync(victim, `${folder}/socket`);
  });
  await expect(listenOnSocket(listening, `${folder}/socket`, 0o666)).rejects.toThrow("in place of");
  expect((await stat(victim)).mode & 0o777).toBe(0o600);
});

test("does not disturb a live process", async () => {
  const path = `${await temporaryFolder()}/socket`;
  await listenOnSocket(server(), path, 0o600);
  await expect(listenOnSocket(server(), path, 0o600)).rejects.toThrow(ConfigurationError);
  await once(connect(path), "connect");
});

test("of more connections than it takes it ends the oldest without a stream", async () => {
  const called = Promise.withResolvers<void>();
  const check = (): Promise<never> => {
    called.resolve();
    return new Promise(() => {});
  };
  const path = await serveRpcs((router) => router.service(Health, { check }));
  const open = async () => {
    const session = openSession(path);
    await once(session, "remoteSettings");
    return session;
  };
  const busy = await open();
  const held = busy.request(healthCall);
  held.on("error", () => {});
  held.end(grpcFrame(new Uint8Array()));
  await called.promise;
  const idle = await open();
  const ended = once(idle, "close");
  for (let i = 0; i < 511; i++) await open();
  await ended;
  expect(busy.destroyed).toBe(false);
});

test("answers a proxy that has hundreds of streams at once on one connection, and bounds them", async () => {
  const [streams, all] = [300, Promise.withResolvers<void>()];
  let called = 0;
  const check = async () => {
    if (++called === streams) all.resolve();
    await all.promise;
    return {};
  };
  const session = openSession(await serveRpcs((router) => router.service(Health, { check })));
  const [{ maxConcurrentStreams }] = await once(session, "remoteSettings");
  expect(maxConcurrentStreams).toBe(1000);
  const statuses = Array.from({ length: streams }, async () => {
    const stream = session.request(healthCall);
    stream.end(grpcFrame(new Uint8Array())).resume();
    return (await once(stream, "trailers"))[0]["grpc-status"];
  });
  expect(new Set(await Promise.all(statuses))).toEqual(new Set(["0"]));
});

test("says that it lets fewer users connect than it should, where every user may enter its folder", async () => {
  const folder = await temporaryFolder();
  await chmod(folder, 0o755);
  const log = createEventRecorder();
  for (const mode of [0o600, 0o666]) {
    const path = `${folder}/${mode}`;
    const served = await serveOnSocket({ path, mode, routes: () => {}, log });
    onTestFinished(() => served.close());
  }
  const path = `${folder}/${0o666}`;
  expect(log.operations).toMatchObject([{ event: "socket-narrowed", level: "warning", path }]);
});

/** Asks for health on a socket whose answer takes a moment, and returns the status of the call. */
async function statusOfCall(
  headers: Record<string, string>,
  message = new Uint8Array(),
): Promise<unknown> {
  const check = async (_: unknown, { signal }: HandlerContext) => {
    await pause(50);
    signal.throwIfAborted();
    return {};
  };
  const session = openSession(await serveRpcs((router) => router.service(Health, { check })));
  const stream = session.request({ ...healthCall, ...headers });
  let status: unknown;
  stream.on("response", (fields) => (status = fields["grpc-status"]));
  stream.on("trailers", (fields) => (status = fields["grpc-status"]));
  stream.end(grpcFrame(message));
  stream.resume();
  await once(stream, "close");
  return status;
}

test.each([
  ["99999999H", "0"],
  ["10m", "4"],
  ["soon", "3"],
])("a call with a timeout of %s ends with status %s", async (timeout, status) => {
  expect(await statusOfCall({ "grpc-timeout": timeout })).toBe(status);
});

test("a message of more than 256 KiB is not read", async () => {
  expect(await statusOfCall({}, new Uint8Array(2 ** 18 + 1))).toBe("8");
});
