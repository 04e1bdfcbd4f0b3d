import type { Registry } from "prom-client";
import {
  createCertificatePath,
  createRoutes,
  isReady,
  type PortState,
} from "../../transport/http/routes.ts";
import type { Peer } from "../../transport/peer.ts";
import { createRpcMetrics } from "../caller-metrics.ts";
import { auxiliaryRpcs } from "../http/auxiliary-rpcs.ts";
import type { OperatorPage, Routes, Rpc } from "../http/routes.ts";
import type { LiveCa } from "./live-ca.ts";

/** The routes for callers. Each call is answered by the configuration that is current when it begins. */
export function routesOf(
  { current, certificateAuthority: ca }: LiveCa,
  registry: Registry,
  ending: AbortSignal,
  port: () => PortState,
): Routes {
  const createCertificate = createRpcMetrics(registry)(createCertificatePath, (request) =>
    current().createCertificate(request),
  );
  const { diagnosticRpcs } = current().configuration;
  const isServing = async (): Promise<boolean> => !ending.aborted && (await isReady(ca, port()));
  const peers = new WeakMap<Request, Peer>();
  const app = createRoutes(ca, (request) => peers.get(request) ?? {}, ending, port);
  const { forCallers, forMonitoring } = auxiliaryRpcs(isServing, diagnosticRpcs);
  return {
    rpcs: new Map([[createCertificatePath, createCertificate], ...forCallers.rpcs]),
    streamingRpcs: forCallers.streamingRpcs,
    monitoringRpcs: forMonitoring,
    fetch: async (request, peer) => {
      peers.set(request, peer);
      return app.fetch(request);
    },
    log: ca.log,
  };
}

/** The console that is current when it is asked. */
export function pageOf({ current }: LiveCa): OperatorPage {
  const rpcs = [...current().consoleRpcs.rpcs.keys()].map((path): [string, Rpc] => [
    path,
    async (request) => {
      const rpc = current().consoleRpcs.rpcs.get(path);
      if (!rpc) throw new Error(`the console answers no ${path}`);
      return rpc(request);
    },
  ]);
  const answer: OperatorPage["answer"] = (request) => current().console.answer(request);
  return { answer, rpcs: { rpcs: new Map(rpcs) } };
}
