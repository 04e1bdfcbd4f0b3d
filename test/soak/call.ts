import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { type ClientHttp2Session, connect, type IncomingHttpHeaders } from "node:http2";
import { connect as connectTcp } from "node:net";
import { connect as connectTls } from "node:tls";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  IstioCertificateRequestSchema,
  IstioCertificateResponseSchema,
} from "../../src/gen/istio/v1/auth/ca_pb.ts";
import { IssuingPath } from "../../src/transport/http/paths.ts";
import { grpcFrame } from "../contract/rpc-calls.ts";

/** The server that a caller calls, and the address of the loopback interface that it calls from. */
export interface Way {
  /** Its name, for the report. */
  readonly server: string;
  readonly port: number;
  readonly localAddress: string;
  readonly serverName: string;
  /** PEM. */
  readonly trustBundle: string;
}

/** The status of gRPC that ended a call, or what became of its connection. */
export class CallFailed extends Error {
  override readonly name = "CallFailed";
}

/** The message of a call, in its frame. */
export const framedRequest = (csr: string): Uint8Array =>
  grpcFrame(
    toBinary(IstioCertificateRequestSchema, create(IstioCertificateRequestSchema, { csr })),
  );

const deadlineMilliseconds = 10_000;

/**
 * Calls CreateCertificate by native gRPC over a connection of its own, as a proxy does that starts.
 *
 * @returns The leaf.
 * @throws CallFailed
 */
export async function callOnce(
  way: Way,
  token: string,
  frame: Uint8Array,
): Promise<X509Certificate> {
  const session = open(way);
  try {
    return await Promise.race([exchange(session, token, frame), broken(session)]);
  } finally {
    session.destroy();
  }
}

function open({ port, localAddress, serverName, trustBundle }: Way): ClientHttp2Session {
  const socket = connectTcp({ host: "127.0.0.1", port, localAddress });
  const session = connect(`https://${serverName}:${port}`, {
    createConnection: () =>
      connectTls({ socket, servername: serverName, ca: trustBundle, ALPNProtocols: ["h2"] }),
  });
  socket.on("error", (error) => session.destroy(error));
  return session;
}

async function broken(session: ClientHttp2Session): Promise<never> {
  const closed = once(session, "close").catch(({ code, message }) => [code ?? message]);
  const [reason = "connection closed"] = await closed;
  throw new CallFailed(String(reason));
}

async function exchange(
  session: ClientHttp2Session,
  token: string,
  frame: Uint8Array,
): Promise<X509Certificate> {
  const stream = session.request({
    ":method": "POST",
    ":path": IssuingPath.createCertificate,
    "content-type": "application/grpc",
    te: "trailers",
    authorization: `Bearer ${token}`,
  });
  const seen: IncomingHttpHeaders[] = [];
  stream.on("response", (headers) => seen.push(headers));
  stream.on("trailers", (headers) => seen.push(headers));
  stream.setTimeout(deadlineMilliseconds, () => stream.destroy(new CallFailed("no answer")));
  stream.end(frame);
  const body = await bodyOf(stream);
  const status = seen.map((headers) => headers["grpc-status"]).find((each) => each !== undefined);
  if (status !== "0") throw new CallFailed(status === undefined ? "no status" : `status ${status}`);
  const { certChain } = fromBinary(IstioCertificateResponseSchema, body.subarray(5));
  return new X509Certificate(certChain[0] ?? "");
}

async function bodyOf(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  try {
    return Buffer.concat(await Array.fromAsync(stream));
  } catch (error) {
    if (error instanceof CallFailed) throw error;
    throw new CallFailed(
      error instanceof Error && "code" in error ? String(error.code) : String(error),
    );
  }
}
