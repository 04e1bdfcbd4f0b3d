import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A frame of HTTP/2 (RFC 9113 §4.1). */
export function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.from([0, 0, 0, type, flags, 0, 0, 0, 0]);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

export const settings: Buffer = frame(4, 0, 0, Buffer.alloc(0));
export const ping: Buffer = frame(6, 0, 0, Buffer.alloc(8));
export const pingAnswer = "\0\0\x08\x06\x01\0\0\0\0";

/** The first octets of a connection (RFC 9113 §3.4). */
export const preface: Buffer = Buffer.concat([
  Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  settings,
]);

/** `GET https://a/`, whole. */
export const getRoot = (stream: number): Buffer =>
  frame(1, 5, stream, Buffer.from([0x82, 0x87, 0x84, 1, 1, 0x61]));

/** `POST https://a<path>`, whose body is to come. */
export const post = (stream: number, path: string): Buffer =>
  frame(1, 4, stream, Buffer.from([0x83, 0x87, 4, path.length, ...Buffer.from(path), 1, 1, 0x61]));

/** A part of a body. */
export const data = (stream: number, octets: number): Buffer =>
  frame(0, 0, stream, Buffer.alloc(octets));

export const reset = (stream: number, code: number): Buffer =>
  frame(3, 0, stream, Buffer.from([0, 0, 0, code]));

/** An established connection of HTTP/2, without TLS, on which a test writes frames. */
export async function openFrames(port: number): Promise<Socket> {
  const socket = connect({ host: "127.0.0.1", port });
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  socket.write(preface);
  await once(socket, "data");
  socket.resume();
  return socket;
}

/** Writes frames, and resolves when the server has answered a ping behind them: it has read them all. */
export function writeAndPing(socket: Socket, frames: readonly Buffer[]): Promise<void> {
  return new Promise((resolve) => {
    let seen = "";
    const look = (chunk: Buffer): void => {
      seen += chunk.toString("latin1");
      if (!seen.includes(pingAnswer)) return;
      socket.off("data", look);
      resolve();
    };
    socket.on("data", look);
    socket.write(Buffer.concat([...frames, ping]));
  });
}
