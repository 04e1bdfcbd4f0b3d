import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { serveOnSocket } from "../../../src/agent/sockets/unix-socket.ts";
import {
  Health,
  HealthCheckResponse_ServingStatus,
} from "../../../src/gen/grpc/health/v1/health_pb.ts";
import { grpcFrame } from "../../contract/rpc-calls.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

/** Asks for health on a socket whose answer takes a moment, and returns the status of the call. */
async function statusOfCall(headers: Record<string, string>): Promise<unknown> {
  const path = `${await temporaryFolder()}/socket`;
  const server = await serveOnSocket({
    path,
    mode: 0o600,
    routes: (router) =>
      router.service(Health, {
        check: async (_, { signal }) => {
          await pause(50);
          signal.throwIfAborted();
          return { status: HealthCheckResponse_ServingStatus.SERVING };
        },
      }),
    log: createEventRecorder(),
  });
  onTestFinished(() => server.close());
  const session = connectHttp2("http://agent", { createConnection: () => connect(path) });
  onTestFinished(() => session.destroy());
  const stream = session.request({
    ":method": "POST",
    ":path": "/grpc.health.v1.Health/Check",
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });
  let status: unknown;
  stream.on("response", (fields) => (status = fields["grpc-status"]));
  stream.on("trailers", (fields) => (status = fields["grpc-status"]));
  stream.end(grpcFrame(new Uint8Array()));
  stream.resume();
  await once(stream, "close");
  return status;
}

test.each(["1H", "2147483S", "2147484S", "99999999H"])(
  "a call with a timeout of %s is answered",
  async (timeout) => {
    expect(await statusOfCall({ "grpc-timeout": timeout })).toBe("0");
  },
);

test.each([
  ["10m", "4"],
  ["999999999H", "3"],
  ["soon", "3"],
])("a call with a timeout of %s ends with status %s", async (timeout, status) => {
  expect(await statusOfCall({ "grpc-timeout": timeout })).toBe(status);
});
