import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { repeatedly } from "../../testkit/time/until.ts";
import type { Replica } from "./replica.ts";

export type LoadBalancer = Awaited<ReturnType<typeof startLoadBalancer>>;

const probeMilliseconds = 500;

/**
 * A Service of Kubernetes: each new connection goes to the next of its endpoints, and stays with it. A replica
 * is an endpoint while its probe succeeds and nobody has begun to delete it.
 */
export async function startLoadBalancer(replicas: readonly Replica[]) {
  const removed = new Set<Replica>();
  const ready = new Set(replicas);
  let turn = 0;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => sockets.delete(socket));
  };
  const server = createServer((near) => {
    keep(near);
    const endpoints = replicas.filter((each) => ready.has(each) && !removed.has(each));
    const chosen = endpoints[turn++ % Math.max(1, endpoints.length)];
    if (!chosen) return void near.destroy();
    const far = connect(chosen.port, "127.0.0.1");
    keep(far);
    // The kubelet tells of a container that has ended at once, and waits for no probe.
    far.on("error", () => ready.delete(chosen));
    far.on("close", () => near.destroy());
    near.on("close", () => far.destroy());
    near.pipe(far).pipe(near);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // Each by itself: one that waits for its store, and so answers late, delays nothing that is known of the other.
  const probes = replicas.map((each) =>
    repeatedly(async () => {
      if (await each.isReady()) ready.add(each);
      else ready.delete(each);
    }, probeMilliseconds),
  );
  return {
    port: (server.address() as AddressInfo).port,
    /** Sends no new connection to the replica, as when its pod is being deleted. */
    remove: (replica: Replica) => void removed.add(replica),
    add: (replica: Replica) => {
      removed.delete(replica);
      // Its probe has succeeded, though the last round here may be older.
      ready.add(replica);
    },
    end: async () => {
      await Promise.all(probes.map((probe) => probe.end()));
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
