import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A connection to a server that a test can cut. */
export interface Relay {
  readonly port: number;
  /** Cuts every connection and refuses new ones. */
  readonly cut: () => void;
  readonly mend: () => void;
  /** Forwards nothing more, and leaves the connections as they are: half open. */
  readonly freeze: () => void;
  /** Forwards nothing on connections new and old until `mend`, which ends all of them: a partition. */
  readonly hold: () => void;
  /** Leads to another port from now on, and ends every connection. */
  readonly turn: (target: number) => void;
  readonly close: () => void;
}

/** Forwards connections to a port of this machine. @param host The address that it listens on. */
export async function startRelay(first: number, host = "127.0.0.1"): Promise<Relay> {
  let target = first;
  const sockets = new Set<Socket>();
  let isCut = false;
  let isHeld = false;
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => sockets.delete(socket));
  };
  const destroyAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const cut = (): void => {
    isCut = true;
    destroyAll();
  };
  const freeze = (): void => {
    for (const socket of sockets) socket.unpipe().pause();
  };
  const server = createServer((near) => {
    keep(near);
    if (isCut) return void near.destroy();
    if (isHeld) return void near.pause();
    const far = connect(target, "127.0.0.1");
    keep(far);
    near.on("close", () => far.destroy());
    // Otherwise a client would wait for ever on a connection that the server has reset.
    far.on("error", () => near.destroy());
    near.pipe(far).pipe(near);
  });
  server.listen(0, host);
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    mend: () => {
      isCut = false;
      if (isHeld) destroyAll();
      isHeld = false;
    },
    freeze,
    hold: () => {
      isHeld = true;
      freeze();
    },
    turn: (next) => {
      target = next;
      destroyAll();
    },
    close: () => {
      cut();
      server.close();
    },
  };
}
