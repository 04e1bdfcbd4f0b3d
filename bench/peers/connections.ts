import type { Load } from "../loads.ts";
import { type Http2Load, http2Load } from "../node/http2-load.ts";

/** So many connections that every process of a server has a part of the load. */
const connections = 4;

/** Calls over several connections, each opened anew where the server has closed it. */
export interface Connections {
  readonly load: Load;
  readonly close: () => void;
}

/** Calls over TLS to a port of this machine, with the arguments of `http2Load`. */
export function openConnections(...call: Parameters<typeof http2Load>): Connections {
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
