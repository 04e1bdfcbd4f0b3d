import { Registry } from "prom-client";
import { createCertificatePath } from "../../transport/http/routes.ts";
import type { Site } from "./site.ts";

/** A site as it is shown to whoever looks after it: with metrics, and without certificates. */
export function createMonitoringSite(site: Site, metrics: () => Promise<string>): Site {
  const { [createCertificatePath]: _, ...rpcs } = Object.fromEntries(site.rpcs);
  return {
    ...site,
    rpcs: new Map(Object.entries(rpcs)),
    fetch: async (request, peer) => {
      switch (new URL(request.url).pathname) {
        case "/metrics":
          return answerScrape(metrics);
        case createCertificatePath:
          return new Response("not found\n", { status: 404 });
        default:
          return site.fetch(request, peer);
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
