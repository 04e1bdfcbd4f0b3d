import type { Load } from "../loads.ts";
import { nativeLoad } from "../node/native-client.ts";
import type { Workload } from "../workload.ts";
import { untilItIssues } from "./peer.ts";

/** So many connections that every process of a server has a part of the load. */
const connections = 4;

/** Calls over several connections, each opened anew where the server has closed it. */
export interface NativeCalls {
  readonly load: Load;
  readonly close: () => void;
}

/** Native gRPC over TLS to a port of this machine, as Istio's clients send it, once the server issues. */
export async function nativeCalls(
  port: number,
  { token, message }: Workload,
): Promise<NativeCalls> {
  const headers = { authorization: `Bearer ${token}`, clusterid: "Kubernetes" };
  const open = () => nativeLoad(port, headers, message);
  await untilItIssues(async () => {
    const first = open();
    try {
      await first.load(1);
    } finally {
      first.close();
    }
  });
  let loads = Array.from({ length: connections }, open);
  const load: Load = async (times) => {
    loads = loads.map((each) => (each.isOpen() ? each : open()));
    await Promise.all(loads.map((each) => each.load(Math.ceil(times / connections))));
  };
  return { load, close: () => loads.forEach((each) => void each.close()) };
}
