import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
} from "node:http2";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { preface, settingsFrame } from "./frames.ts";
import { openTls, type Target } from "./tls-socket.ts";

/** Floods until the signal aborts. Whatever the server does to it is no fault. */
export type Method = (target: Target, signal: AbortSignal) => Promise<void>;

const connectionCount = 8;

export const tick = (milliseconds = 0): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

export const ignore = (): void => {};

/** Keeps as many sockets as it can, and opens another for each that ends. */
export function holding(
  count: number,
  open: (target: Target) => Socket | ClientHttp2Session,
): Method {
  return async (target, signal) => {
    const held = new Set<Socket | ClientHttp2Session>();
    while (!signal.aborted) {
      for (let i = 0; i < 50 && held.size < count; i++) {
        const each = open(target);
        each.on("error", ignore);
        held.add(each);
        each.once("close", () => held.delete(each));
      }
      await tick(5);
    }
    for (const each of held) each.destroy();
  };
}

export function openHttp2(target: Target, settings = {}): ClientHttp2Session {
  if (target.isPlaintext) return connectHttp2(`http://127.0.0.1:${target.port}`, { settings });
  return connectHttp2(`https://127.0.0.1:${target.port}`, {
    settings,
    createConnection: () => openTls(target),
  });
}

/** Some connections, each with as many streams as it can have, opened again when they end. */
export function streaming(
  streams: number,
  begin: (session: ClientHttp2Session) => ClientHttp2Stream,
  settings: object = {},
  together: Together = several,
): Method {
  const one: Method = async (target, signal) => {
    while (!signal.aborted) {
      const session = openHttp2(target, settings);
      session.on("error", ignore);
      let isOver = false;
      session.once("close", () => {
        isOver = true;
      });
      let open = 0;
      while (!isOver && !signal.aborted) {
        for (let i = 0; i < 50 && open < streams && !session.closed && !session.destroyed; i++) {
          open++;
          const stream = begin(session);
          stream.on("error", ignore);
          stream.once("close", () => void open--);
        }
        await tick(1);
      }
      session.destroy();
    }
  };
  return together(one);
}

/** How many of a method flood together. */
type Together = (one: Method) => Method;

export const times =
  (count: number): Together =>
  (one) =>
  async (target, signal) => {
    await Promise.all(Array.from({ length: count }, () => one(target, signal)));
  };

export const several: Together = times(connectionCount);

export const fromEach =
  (addresses: readonly string[]): Together =>
  (one) =>
  async (target, signal) => {
    await Promise.all(addresses.map((localAddress) => one({ ...target, localAddress }, signal)));
  };

/** Raw frames after the handshake, as fast as the socket takes them. */
export function framing(chunk: (round: number) => Buffer): Method {
  const one: Method = async (target, signal) => {
    while (!signal.aborted) {
      const socket = openTls(target);
      socket.on("error", ignore);
      socket.resume();
      await new Promise<void>((resolve) => {
        socket.once("secureConnect", resolve);
        socket.once("close", () => resolve());
      });
      socket.write(Buffer.concat([preface, settingsFrame]));
      await pump(socket, chunk, signal);
      socket.destroy();
      await tick(5);
    }
  };
  return several(one);
}

async function pump(socket: TLSSocket, chunk: (round: number) => Buffer, signal: AbortSignal) {
  for (let round = 0; !socket.destroyed && !signal.aborted; round++) {
    const isTaken = socket.write(chunk(round));
    if (isTaken) await tick();
    else await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), tick(100)]);
  }
}
