import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { Agent, createServer, request } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import type { Gateway } from "./gateway.ts";

/** A way to the service that loses answers, and may be cut. */
export interface FaultyProxy {
  readonly port: number;
  /** Of the answers to writes, each so many-th is lost after the write; 0 loses none. */
  losesEvery: number;
  /** Whether the service is away. */
  isAway: boolean;
  /** Answers to writes that were lost. */
  readonly lost: () => number;
  readonly end: () => void;
}

/** Starts the proxy with the certificate of the service, whose folder has the key. */
export async function startFaultyProxy(
  { port, ca, rootsFile }: Gateway,
  folder: string,
): Promise<FaultyProxy> {
  const agent = new Agent({ keepAlive: true, ca, servername: "" });
  const sockets = new Set<Duplex>();
  let writes = 0;
  let lost = 0;
  const identity = {
    key: await readFile(join(folder, "gateway.key")),
    cert: await readFile(rootsFile),
  };
  const server = createServer(identity, (near, answer) => {
    if (proxy.isAway) return void near.socket.destroy();
    // The signature covers the host that the client named.
    const { method, url: path, headers } = near;
    const far = request({ host: "127.0.0.1", port, method, path, headers, agent }, (response) => {
      const isWrite = method === "PUT" && response.statusCode === 200;
      if (isWrite && proxy.losesEvery > 0 && ++writes % proxy.losesEvery === 0) {
        lost++;
        response.resume();
        near.socket.destroy();
        return;
      }
      answer.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(answer);
    });
    far.on("error", () => near.socket.destroy());
    near.pipe(far);
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy: FaultyProxy = {
    port: (server.address() as AddressInfo).port,
    losesEvery: 0,
    isAway: false,
    lost: () => lost,
    end: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      agent.destroy();
    },
  };
  return proxy;
}
