import { type ClientHttp2Session, connect } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { deadline, type Latencies, type Latency } from "./latencies.ts";
import { callersAddress } from "./rows.ts";
import type { Server } from "./servers.ts";
import { openTls } from "./tls-socket.ts";

/** Every so many milliseconds a call begins, whatever became of the one before. */
const interval = 100;

/** Every so many calls the caller opens a connection anew. */
const callsOfConnection = 10;

/** Calls of a workload with a good credential, from an address of its own. */
export async function callHonestly(
  server: Server,
  headers: Readonly<Record<string, string>>,
  frame: Buffer,
  signal: AbortSignal,
): Promise<Latencies> {
  const calls: Promise<Latency>[] = [];
  let session: ClientHttp2Session | undefined;
  let ofSession: Promise<Latency>[] = [];
  for (let i = 0; !signal.aborted; i++) {
    if (!session || session.closed || session.destroyed || i % callsOfConnection === 0) {
      if (session) void leave(session, ofSession);
      [session, ofSession] = [open(server.port), []];
    }
    const called = timed(call(session, headers, frame), server);
    calls.push(called);
    ofSession.push(called);
    await sleep(interval);
  }
  const latencies = await Promise.all(calls);
  session?.destroy();
  return latencies;
}

/** Closes a session when its calls are over: it would fail those that wait for its handshake. */
async function leave(session: ClientHttp2Session, calls: readonly Promise<Latency>[]) {
  await Promise.all(calls);
  session.close();
}

function open(port: number): ClientHttp2Session {
  const session = connect(`https://127.0.0.1:${port}`, {
    createConnection: () => openTls({ port, localAddress: callersAddress }),
  });
  session.on("error", () => session.destroy());
  return session;
}

async function timed(answered: Promise<boolean>, server: Server): Promise<Latency> {
  const [begun, cpu] = [performance.now(), server.cpuMilliseconds()];
  const servers = server.upstream ? [server, server.upstream] : [server];
  const before = servers.map((each) => each.waitMilliseconds());
  const isServed = await Promise.race([answered, sleep(5 * deadline, false)]);
  return {
    milliseconds: isServed ? performance.now() - begun : Number.POSITIVE_INFINITY,
    serverCpuMilliseconds: server.cpuMilliseconds() - cpu,
    serverWaitMilliseconds: Math.max(
      ...servers.map((each, i) => each.waitMilliseconds() - (before[i] ?? 0)),
    ),
  };
}

function call(
  session: ClientHttp2Session,
  headers: Readonly<Record<string, string>>,
  frame: Buffer,
): Promise<boolean> {
  return new Promise((resolve) => {
    const stream = session.request({
      ...headers,
      ":method": "POST",
      ":path": "/istio.v1.auth.IstioCertificateService/CreateCertificate",
      "content-type": "application/grpc+proto",
      te: "trailers",
    });
    let status = "";
    const note = (seen: { readonly [name: string]: unknown }): void => {
      status = String(seen["grpc-status"] ?? status);
    };
    stream.on("response", note);
    stream.on("trailers", note);
    stream.on("error", () => resolve(false));
    stream.on("close", () => resolve(status === "0"));
    stream.resume();
    stream.end(frame);
  });
}
