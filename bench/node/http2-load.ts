import {
  type ClientHttp2Session,
  connect,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from "node:http2";
import type { Load } from "../loads.ts";
import type { Workload } from "../workload.ts";

/** Concurrent calls, as on one connection of a busy node proxy. */
const usualConcurrency = 8;

/** A call over HTTP/2. */
export interface Http2Call {
  readonly headers: OutgoingHttpHeaders;
  readonly body: Uint8Array;
  /** The `grpc-status` of its success, or the `:status` where the answer has no other. */
  readonly success: string;
}

/** The same work over one connection. */
export interface Http2Load {
  readonly load: Load;
  /** Whether the connection is still there: a server closes those that are idle. */
  readonly isOpen: () => boolean;
  readonly close: () => void;
}

/** @param next The call that is due, the same one or always another. */
export function http2Load(
  port: number,
  next: () => Http2Call | Promise<Http2Call>,
  credential: Pick<SecureClientSessionOptions, "key" | "cert"> = {},
  concurrency = usualConcurrency,
): Http2Load {
  const session = connect(`https://127.0.0.1:${port}`, {
    ...credential,
    servername: "localhost",
    rejectUnauthorized: false,
  });
  // The calls of a session that fails are rejected themselves.
  session.on("error", () => {});
  return {
    load: async (times) => {
      let left = times;
      const caller = async (): Promise<void> => {
        while (left-- > 0) await answerOf(session, await next());
      };
      await Promise.all(Array.from({ length: concurrency }, caller));
    },
    isOpen: () => !session.closed && !session.destroyed,
    close: () => session.close(),
  };
}

/** The call of native gRPC with which Istio's clients ask for a certificate. */
export function istioCall({ token, message }: Workload): Http2Call {
  const path = "/istio.v1.auth.IstioCertificateService/CreateCertificate";
  const headers = { authorization: `Bearer ${token}`, clusterid: "Kubernetes" };
  return nativeCall(path, message, headers);
}

/** A unary call of native gRPC, in one frame. */
export function nativeCall(
  path: string,
  message: Uint8Array,
  headers: OutgoingHttpHeaders = {},
): Http2Call {
  const body = Buffer.alloc(5 + message.length);
  body.writeUInt32BE(message.length, 1);
  body.set(message, 5);
  const own = {
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc+proto",
    te: "trailers",
  };
  return { headers: { ...headers, ...own }, body, success: "0" };
}

/** The body of the answer. @throws Error if the call fails. */
export function answerOf(
  session: ClientHttp2Session,
  { headers, body, success }: Http2Call,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const stream = session.request(headers);
    let status = "";
    const note = (seen: { readonly [name: string]: unknown }): void => {
      status = String(seen["grpc-status"] ?? seen[":status"] ?? status);
    };
    const chunks: Buffer[] = [];
    stream.on("response", note);
    stream.on("trailers", note);
    stream.on("error", reject);
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => {
      const whole = Buffer.concat(chunks);
      if (status === success) resolve(whole);
      else reject(new Error(`answered ${status}: ${whole.toString("latin1").slice(0, 300)}`));
    });
    stream.end(body);
  });
}
