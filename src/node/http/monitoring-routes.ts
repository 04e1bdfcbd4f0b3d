import { Registry } from "prom-client";
import { createCertificatePath } from "../../transport/http/routes.ts";
import type { Routes } from "./routes.ts";

/** The routes for operators: those for callers with the metrics, and without the RPC for certificates. */
export function createMonitoringRoutes(routes: Routes, metrics: () => Promise<string>): Routes {
  const { [createCertificatePath]: _, ...rpcs } = Object.fromEntries(routes.rpcs);
  return {
    ...routes,
    rpcs: new Map([...Object.entries(rpcs), ...(routes.monitoringRpcs ?? [])]),
    fetch: async (request, peer) => {
      switch (new URL(request.url).pathname) {
        case "/metrics":
          return answerScrape(metrics);
        case createCertificatePath:
          return new Response("not found\n", { status: 404 });
        default:
          return routes.fetch(request, peer);
      }
    },
  };
}

async function answerScrape(metrics: () => Promise<string>): Promise<Response> {
  const headers = {
    "content-type": Registry.PROMETHEUS_CONTENT_TYPE,
    "cache-control": "no-store",
  };
  return new Response(await metrics(), { headers });
}
