import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A TCP proxy to a server that a test can close and open again. */
export interface PausableProxy {
  readonly url: string;
  pause(): void;
  resume(): void;
  close(): void;
}

export async function startPausableProxy(target: URL): Promise<PausableProxy> {
  const sockets = new Set<Socket>();
  let isPaused = false;
  const track = (socket: Socket): Socket => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    return socket;
  };
  const server = createServer((incoming) => {
    track(incoming);
    if (isPaused) incoming.destroy();
    else {
      const outgoing = track(connect(Number(target.port), target.hostname));
      incoming.pipe(outgoing).pipe(incoming);
      incoming.on("close", () => outgoing.destroy());
      // Otherwise a client would wait for ever on a connection that the server has reset.
      outgoing.on("error", () => incoming.destroy());
    }
  });
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    pause() {
      isPaused = true;
      cut();
    },
    resume() {
      isPaused = false;
    },
    close() {
      cut();
      server.close();
    },
  };
}
