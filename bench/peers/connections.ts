import type { Load } from "../loads.ts";
import { type Http2Load, http2Load } from "../node/http2-load.ts";
import type { Peer } from "./peer.ts";
import type { PeerProcess } from "./peer-process.ts";

/** So many connections that every process of a server has a part of the load. */
const connections = 4;

/** Calls over several connections, each opened anew where the server has closed it. */
interface Connections {
  readonly load: Load;
  readonly close: () => void;
}

/**
 * Opens connections over TLS to a server of this machine, and waits for its first certificate.
 *
 * @param call The arguments of `http2Load`.
 */
export async function connectTo(
  server: PeerProcess,
  ...call: Parameters<typeof http2Load>
): Promise<Pick<Peer, "load" | "cpu" | "end">> {
  const { load, close } = openConnections(...call);
  await server.until(() => load(1));
  return {
    load,
    cpu: server.cpu,
    end: async () => {
      close();
      await server.end();
    },
  };
}

function openConnections(...call: Parameters<typeof http2Load>): Connections {
  let loads: Http2Load[] = [];
  return {
    load: async (times) => {
      loads = Array.from({ length: connections }, (_, i) => {
        const last = loads[i];
        return last?.isOpen() ? last : http2Load(...call);
      });
      const share = Math.ceil(times / connections);
      await Promise.all(loads.map(({ load }) => load(share)));
    },
    close: () => loads.forEach(({ close }) => void close()),
  };
}
