import { type ClientHttp2Session, connect } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { openTls } from "./tls-socket.ts";

/** Every so many milliseconds a call begins, whatever became of the one before. */
const interval = 100;

/** What is too late for a caller. */
const deadline = 1000;

/** Every so many calls the caller opens a connection anew. */
const callsOfConnection = 10;

/** How long each call took, in milliseconds; infinitely long for one that failed. */
export type Latencies = readonly number[];

/** Calls of a workload with a good credential, from an address of its own. */
export async function callHonestly(
  port: number,
  headers: Readonly<Record<string, string>>,
  frame: Buffer,
  signal: AbortSignal,
): Promise<Latencies> {
  const calls: Promise<number>[] = [];
  let session: ClientHttp2Session | undefined;
  for (let i = 0; !signal.aborted; i++) {
    if (!session || session.closed || session.destroyed || i % callsOfConnection === 0) {
      session?.close();
      session = open(port);
    }
    calls.push(timed(session, headers, frame));
    await sleep(interval);
  }
  const latencies = await Promise.all(calls);
  session?.destroy();
  return latencies;
}

function open(port: number): ClientHttp2Session {
  const session = connect(`https://127.0.0.1:${port}`, {
    createConnection: () => openTls({ port, localAddress: "127.0.0.2" }),
  });
  session.on("error", () => session.destroy());
  return session;
}

/** A call that a closing connection has refused unread is tried once more, as clients of gRPC do it. */
async function timed(
  session: ClientHttp2Session,
  headers: Readonly<Record<string, string>>,
  frame: Buffer,
): Promise<number> {
  const begun = performance.now();
  const isServed = await Promise.race([call(session, headers, frame), sleep(5 * deadline, false)]);
  return isServed ? performance.now() - begun : Number.POSITIVE_INFINITY;
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

/** The part of the calls that were answered in time. */
export function partInTime(latencies: Latencies): number {
  return latencies.filter((each) => each <= deadline).length / Math.max(1, latencies.length);
}
