import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import { Registry } from "prom-client";
import type { EventLog } from "../../ca/issuance/event-log.ts";
import { SingleFlight } from "../../foundation/single-flight.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { Runtime } from "../../program/runtime.ts";
import { issuingPaths } from "../../transport/http/paths.ts";
import { SharedOctets } from "../../transport/http/shared-octets.ts";
import type { Peer, RpcRequest, RpcResponse } from "../../transport/rpc/rpc.ts";

/** A response, complete or in chunks. */
export type StreamedResponse = RpcResponse | UniversalServerResponse;

/** Answers the calls of one RPC, each once its body has arrived. */
export type Rpc = (request: RpcRequest) => Promise<StreamedResponse>;

/** RPCs by their paths. */
export interface Rpcs {
  readonly rpcs: ReadonlyMap<string, Rpc>;
}

/** The routes of a server: RPCs by path, and a fetch handler for every other request. */
export interface Routes extends Rpcs {
  /** The RPCs of the monitoring port besides those for callers. */
  readonly monitoringRpcs?: Rpcs;
  readonly fetch: (request: Request, peer: Peer) => Promise<Response>;
  readonly log: EventLog;
}

/** The body of a response: `octets` if it is complete, else chunks in `body`. */
export function partsOf(response: StreamedResponse): {
  readonly octets?: Uint8Array;
  readonly body?: AsyncIterable<Uint8Array> | undefined;
} {
  return "octets" in response ? { octets: response.octets } : { body: response.body };
}

/** A page for operators, and the service behind it. */
export interface OperatorPage {
  /** `undefined` for every path that is not the page's. */
  readonly answer: (request: Request) => Promise<Response | undefined>;
  readonly rpcs: Rpcs;
}

/** Adds the known bugs of the runtime to the response of `/readyz`, on the monitoring port alone. */
async function withFaults(answer: Response): Promise<Response> {
  const { status, headers } = answer;
  const state: object = Object(await answer.json());
  return Response.json({ ...state, runtime: Runtime.faults() }, { status, headers });
}

/** The routes of the monitoring port: those for callers, plus the metrics and the page, without the RPCs that issue. */
export function createMonitoringRoutes(
  routes: Routes,
  metrics: () => Promise<string>,
  page?: OperatorPage,
): Routes {
  const all = [routes, routes.monitoringRpcs, page?.rpcs];
  const scrape = sharedScrape(metrics);
  const rpcs = new Map(all.flatMap((each) => [...(each?.rpcs ?? [])]));
  for (const path of issuingPaths) rpcs.delete(path);
  return {
    ...routes,
    rpcs,
    fetch: async (request, peer) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/metrics") return scrape();
      if (pathname === "/readyz") return withFaults(await routes.fetch(request, peer));
      if (issuingPaths.some((path) => path === pathname))
        return new Response("not found\n", { status: 404 });
      return (await page?.answer(request)) ?? routes.fetch(request, peer);
    },
  };
}

/** Creates the handler of scrapes. Concurrent scrapes share one result. */
function sharedScrape(metrics: () => Promise<string>): () => Promise<Response> {
  const headers = {
    "content-type": Registry.PROMETHEUS_CONTENT_TYPE,
    "cache-control": "no-store",
  };
  const scrapes = new SingleFlight<Bytes>();
  const scraped = async (): Promise<Bytes> => new TextEncoder().encode(await metrics());
  return async () => SharedOctets.share(await scrapes.join(scraped), { headers });
}
