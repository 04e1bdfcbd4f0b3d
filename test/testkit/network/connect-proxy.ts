import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A proxy on the loopback address, which knows no name but those that a test gives it. */
interface ConnectProxy {
  /** The URL with user and password. */
  readonly url: string;
  /** Its address alone, as programs may show it. */
  readonly shown: string;
  /** What it was asked for, by CONNECT (`host:port`) or by a whole URL. */
  readonly asked: readonly string[];
}

export const proxyPassword = "s3cret/@pass";

/**
 * Starts a proxy that demands Basic authentication. It ends with the test.
 *
 * @param ports The port of this machine for each name.
 */
export async function startConnectProxy(
  ports: Readonly<Record<string, number>>,
): Promise<ConnectProxy> {
  const asked: string[] = [];
  const sockets = new Set<Socket>();
  const expected = `Basic ${Buffer.from(`rampart:${proxyPassword}`).toString("base64")}`;
  const server = createServer((request, response) => {
    if (request.headers["proxy-authorization"] !== expected) {
      response.writeHead(407).end();
      return;
    }
    asked.push(request.url ?? "");
    response.end(`forwarded ${request.method} ${request.url} for ${request.headers.host}`);
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  server.on("connect", ({ url = "", headers }, near: Socket) => {
    near.on("error", () => near.destroy());
    if (headers["proxy-authorization"] !== expected) {
      near.end("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
      return;
    }
    asked.push(url);
    const port = ports[url.replace(/:\d+$/, "")];
    if (port === undefined) {
      near.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n");
      return;
    }
    const far = connect(port, "127.0.0.1", () => {
      near.write("HTTP/1.1 200 Connection established\r\n\r\n");
      near.pipe(far).pipe(near);
    });
    far.on("error", () => near.destroy());
    near.on("close", () => far.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const shown = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const url = `http://rampart:${encodeURIComponent(proxyPassword)}@${shown}`;
  return { url, shown: `http://${shown}`, asked };
}
