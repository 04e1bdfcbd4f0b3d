import { Registry } from "prom-client";
import { createCertificatePath } from "../../transport/http/routes.ts";
import type { Routes, Rpcs } from "./routes.ts";

/** A page for operators, and the service behind it. */
export interface OperatorPage {
  /** `undefined` for every path that is not the page's. */
  readonly answer: (request: Request) => Promise<Response | undefined>;
  readonly rpcs: Rpcs;
}

/**
 * The routes for operators: those for callers with the metrics and the page, and without the RPC for
 * certificates.
 */
export function createMonitoringRoutes(
  routes: Routes,
  metrics: () => Promise<string>,
  page?: OperatorPage,
): Routes {
  const all = [routes, routes.monitoringRpcs, page?.rpcs];
  const rpcs = new Map(all.flatMap((each) => [...(each?.rpcs ?? [])]));
  rpcs.delete(createCertificatePath);
  return {
    ...routes,
    rpcs,
    streamingRpcs: new Map(all.flatMap((each) => [...(each?.streamingRpcs ?? [])])),
    fetch: async (request, peer) => {
      switch (new URL(request.url).pathname) {
        case "/metrics":
          return answerScrape(metrics);
        case createCertificatePath:
          return new Response("not found\n", { status: 404 });
        default:
          return (await page?.answer(request)) ?? routes.fetch(request, peer);
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
