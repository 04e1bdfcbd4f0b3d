import { once } from "node:events";
import { constants } from "node:fs";
import { chmod, mkdir, open, realpath, rm, stat } from "node:fs/promises";
import {
  createServer,
  type Http2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerOptions,
} from "node:http2";
import { connect, type Server } from "node:net";
import { dirname } from "node:path";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createConnectRouter,
  createContextValues,
} from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import {
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import { Backoff, retry } from "../../foundation/backoff.ts";
import { ConfigurationError, messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { CallTimeout } from "../../foundation/headers.ts";
import { DescriptorPath } from "../descriptor-path.ts";
import { holdNames, Sessions, takePermit, UnreadResponses } from "./socket-bounds.ts";

const attempts = 5;

/**
 * Listens on a Unix socket. It replaces any file at the path, except the socket of a live process.
 *
 * @param mode The permissions of the socket. Its folder may restrict clients further. In a folder that every user
 *   may enter, the socket is for its owner and its group alone.
 * @returns The permissions that the socket has.
 * @throws ConfigurationError when another process accepts connections at the path.
 */
export async function listenOnSocket(server: Server, path: string, mode: number): Promise<number> {
  await mkdir(dirname(path), { recursive: true, mode: 0o750 });
  const listen = async (): Promise<void> => {
    if (await isServed(path)) {
      throw new ConfigurationError([`another process serves on ${path}`]);
    }
    await rm(path, { force: true });
    server.listen(path);
    await once(server, "listening");
  };
  const retryAfter = (error: unknown) => (error instanceof ConfigurationError ? undefined : 0);
  await retry(listen, { backoff: Backoff.usual.call, attempts, retryAfter, random: () => 0 });
  const granted = (await isOpenToAll(dirname(path))) ? mode & 0o770 : mode;
  await permit(path, granted);
  return granted;
}

/** The flag of Linux that opens a path only to change its permissions. Node has no constant for it. */
const O_PATH = process.platform === "linux" ? 0o10000000 : 0;

/** Sets the permissions of a socket without following links. Throws if the path no longer leads to a socket. */
async function permit(path: string, mode: number): Promise<void> {
  if (O_PATH === 0) return chmod(path, mode);
  await using opened = await open(path, O_PATH | constants.O_NOFOLLOW);
  const found = await opened.stat();
  if (!found.isSocket()) throw new Error(`something else is in place of the socket ${path}`);
  await chmod(DescriptorPath.of(opened, path), mode);
}

const othersMayEnter = 0o001;

/** Whether every user may enter the folder and all folders above it. */
async function isOpenToAll(folder: string): Promise<boolean> {
  for (let current = await realpath(folder); ; current = dirname(current)) {
    if (((await stat(current)).mode & othersMayEnter) === 0) return false;
    if (dirname(current) === current) return true;
  }
}

/** Whether a process listens at the path. For a busy one the kernel accepts connections. */
async function isServed(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, "connect");
    return true;
  } catch {
    // A missing socket and a refused connection both mean that no process serves there.
    return false;
  } finally {
    socket.destroy();
  }
}

/** An HTTP/2 server that listens on a Unix socket. */
export interface Http2Socket {
  readonly path: string;
  /** Aborts every stream, and resolves once the socket is closed. Clients reconnect to the next agent. */
  close(): Promise<void>;
}

interface Http2SocketOptions {
  readonly path: string;
  readonly mode: number;
  readonly server: ServerOptions;
  readonly log: OperationLog;
}

/** Serves HTTP/2 on a Unix socket. Only the permissions of the socket and of its folder restrict its clients. */
export async function serveHttp2(
  { path, mode, server: options, log }: Http2SocketOptions,
  attach: (server: Http2Server, sessions: Sessions) => void,
): Promise<Http2Socket> {
  const server = createServer(options);
  const sessions = new Sessions();
  attach(server, sessions);
  server.on("stream", (stream) => sessions.count(stream));
  server.on("session", (session) => {
    sessions.add(session);
    // A protocol error ends only this peer's session.
    session.on("error", () => session.destroy());
  });
  const granted = await listenOnSocket(server, path, mode);
  if (granted !== mode) {
    const detail = "every user may enter its folder, so only its owner and its group may open it";
    log.operation({ event: "socket-narrowed", level: "warning", path, detail });
  }
  return {
    path,
    async close() {
      server.close();
      sessions.destroy();
      if (server.listening) await once(server, "close");
    },
  };
}

interface RpcSocketOptions {
  readonly path: string;
  readonly mode: number;
  readonly routes: (router: ConnectRouter) => void;
  readonly log: OperationLog;
}

/** Enough for the names of a node's identities, their versions, and Envoy's description of its node. */
const maximumMessageBytes = 1 << 18;
/** The most streams of one connection. A proxy opens one for each secret. */
const maximumStreams = 1_000;

/**
 * Serves plaintext gRPC on a Unix socket. Only the permissions of the socket and of its folder restrict its clients. In
 * a folder that every user may enter, `mode` loses the rights of others.
 * @throws ConfigurationError when another process serves at the path.
 */
export async function serveOnSocket({
  path,
  mode,
  routes,
  log,
}: RpcSocketOptions): Promise<Http2Socket> {
  const protocols = { grpc: true, grpcWeb: false, connect: false };
  // Unknown fields are dropped, because each would take a hundred times its octets in memory.
  const binaryOptions = { readUnknownFields: false };
  const readMaxBytes = maximumMessageBytes;
  const router = createConnectRouter({ ...protocols, readMaxBytes, binaryOptions });
  routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  const settings = { maxConcurrentStreams: maximumStreams };
  const unread = new UnreadResponses();
  return serveHttp2({ path, mode, server: { settings }, log }, (server, sessions) => {
    server.on("request", (request, response) => {
      const handler = handlers.get(request.url);
      if (handler) void answer(handler, request, response, { unread: unread, sessions, log });
      else response.writeHead(404).end();
    });
  });
}

interface SocketParts {
  readonly unread: UnreadResponses;
  readonly sessions: Sessions;
  readonly log: OperationLog;
}

async function answer(
  handler: UniversalHandler,
  request: Http2ServerRequest,
  response: Http2ServerResponse,
  { unread: room, sessions, log }: SocketParts,
): Promise<void> {
  // gRPC libraries send the path of the socket as the authority, which is no valid host of a URL.
  request.headers[":authority"] = "localhost";
  try {
    const { stream } = response;
    const values = createContextValues()
      .set(takePermit, room.of(stream))
      .set(holdNames, (names) => sessions.hold(stream, names));
    const call = universalRequestFromNodeRequest(request, response, undefined, values);
    const header = CallTimeout.cap(call.header);
    const body = counted(request, (octets) => sessions.receive(stream, octets));
    await universalResponseToNodeResponse(await handler({ ...call, header, body }), response);
  } catch (error) {
    // It is no failure if the client or the closing agent has aborted the stream.
    if (response.stream.destroyed || ConnectError.from(error).code === Code.Aborted) return;
    log.operation({ event: "rpc-failed", level: "warning", detail: messageOf(error) });
    response.stream.destroy();
  }
}

async function* counted(
  body: AsyncIterable<Uint8Array>,
  count: (octets: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) {
    count(chunk.length);
    yield chunk;
  }
}
