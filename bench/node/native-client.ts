import { type ClientHttp2Session, connect } from "node:http2";
import type { Load } from "../loads.ts";

/** Concurrent calls, as on one connection of a busy node proxy. */
const concurrency = 8;

/** Calls of native gRPC over one connection. */
export interface NativeLoad {
  readonly load: Load;
  /** Whether the connection is still there: a server closes those that are idle. */
  readonly isOpen: () => boolean;
  readonly close: () => void;
}

/** @param message The message of every call, sent in one frame. */
export function nativeLoad(
  port: number,
  headers: Readonly<Record<string, string>>,
  message: Uint8Array,
): NativeLoad {
  const session = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false });
  // The calls of a session that fails are rejected themselves.
  session.on("error", () => {});
  const frame = Buffer.alloc(5 + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, 5);
  const one = () => call(session, headers, frame);
  return {
    load: async (times) => {
      let left = times;
      const caller = async (): Promise<void> => {
        while (left-- > 0) await one();
      };
      await Promise.all(Array.from({ length: concurrency }, caller));
    },
    isOpen: () => !session.closed && !session.destroyed,
    close: () => session.close(),
  };
}

function call(
  session: ClientHttp2Session,
  headers: Readonly<Record<string, string>>,
  frame: Buffer,
): Promise<void> {
  return new Promise((resolve, reject) => {
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
    stream.on("error", reject);
    stream.on("end", () => (status === "0" ? resolve() : reject(new Error(`answered ${status}`))));
    stream.resume();
    stream.end(frame);
  });
}
