import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** Answers one request with any octets. */
export type RawAnswer = (socket: Socket, request: string) => void;

interface RawServer {
  readonly url: string;
  /** Every request, with its body. */
  readonly heard: readonly string[];
  /** Every connection so far. */
  readonly sockets: ReadonlySet<Socket>;
}

/** A server that reads HTTP/1.1 requests, and answers with exactly the octets of a test. */
export async function startRawServer(answer: RawAnswer): Promise<RawServer> {
  const heard: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      const [head = "", body] = text.split("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (body === undefined || body.length < length) return;
      const request = text;
      heard.push(request);
      text = "";
      answer(socket, request);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, heard, sockets };
}

/** The octets of an HTTP/1.1 answer. */
export function rawResponse(status: string, type: string, body: string, more = ""): string {
  const length = Buffer.byteLength(body);
  return `HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\ncontent-length: ${length}\r\n${more}\r\n${body}`;
}

/** Connect's answer with the message `abc`. */
export const granted: string = rawResponse("200 OK", "application/proto", "abc");
