import type { Readable } from "node:stream";
import { Code } from "@connectrpc/connect";
import type { UniversalServerResponse } from "@connectrpc/connect/protocol";
import { Histogram, Registry } from "prom-client";
import type { EventLog } from "../../ca/issuance/audit-event.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { addCounter } from "../../program/metrics.ts";
import { shareOctets } from "../../transport/http/polled-endpoint.ts";
import { issuingPaths } from "../../transport/http/routes.ts";
import { statusCodeOf } from "../../transport/rpc/audited-call.ts";
import type { Peer, RpcRequest, RpcResponse, RpcService } from "../../transport/rpc/rpc.ts";

/** A request to a streaming RPC, whose body nobody has read. */
type StreamedRequest = Omit<RpcRequest, "body"> & { readonly body: Readable };

/** An answer: whole, or in chunks. */
export type StreamedResponse = RpcResponse | UniversalServerResponse;

/** Answers the calls of one RPC, each once its body has arrived. */
export type Rpc = (request: RpcRequest) => Promise<StreamedResponse>;

/** Answers the calls of one RPC while their messages arrive. */
export type StreamingRpc = (request: StreamedRequest) => Promise<StreamedResponse>;

/** RPCs by their paths. */
export interface Rpcs {
  readonly rpcs: ReadonlyMap<string, Rpc>;
  readonly streamingRpcs?: ReadonlyMap<string, StreamingRpc> | undefined;
}

/** The routes of a server: RPCs by path, and a fetch handler for every other request. */
export interface Routes extends Rpcs {
  /** The RPCs of the monitoring port besides those for callers. */
  readonly monitoringRpcs?: Rpcs;
  readonly fetch: (request: Request, peer: Peer) => Promise<Response>;
  readonly log: EventLog;
}

/** The body of an answer: octets if it is whole, else chunks. */
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

/**
 * The routes for operators: those for callers with the metrics and the page, and without the RPCs that
 * issue.
 */
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
    streamingRpcs: new Map(all.flatMap((each) => [...(each?.streamingRpcs ?? [])])),
    fetch: async (request, peer) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/metrics") return scrape();
      if (issuingPaths.some((path) => path === pathname))
        return new Response("not found\n", { status: 404 });
      return (await page?.answer(request)) ?? routes.fetch(request, peer);
    },
  };
}

/** Answers scrapes: those that come while one is made share it. */
function sharedScrape(metrics: () => Promise<string>): () => Promise<Response> {
  const headers = {
    "content-type": Registry.PROMETHEUS_CONTENT_TYPE,
    "cache-control": "no-store",
  };
  let underWay: Promise<Bytes> | undefined;
  const scraped = async (): Promise<Bytes> => new TextEncoder().encode(await metrics());
  return async () => {
    underWay ??= scraped().finally(() => {
      underWay = undefined;
    });
    return shareOctets(await underWay, { headers });
  };
}

const methodLabels = ["grpc_type", "grpc_service", "grpc_method"] as const;

/**
 * Counts and times RPCs under the names that every gRPC dashboard knows (those of go-grpc-prometheus).
 *
 * @returns A function that counts and times the RPC of a path.
 */
export function createRpcMetrics(
  registry: Registry,
): (path: string, rpc: RpcService) => RpcService {
  const begun = "RPCs that have begun.";
  const started = addCounter(registry, "grpc_server_started_total", begun, ...methodLabels);
  const handled = addCounter(
    registry,
    "grpc_server_handled_total",
    "RPCs that were answered, by the code of the answer.",
    ...([...methodLabels, "grpc_code"] as const),
  );
  const seconds = new Histogram({
    name: "grpc_server_handling_seconds",
    help: "How long RPCs took until their answer was ready.",
    labelNames: methodLabels,
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers: [registry],
  });
  return (path, rpc) => {
    const [, service = "", method = ""] = path.split("/");
    const labels = { grpc_type: "unary", grpc_service: service, grpc_method: method };
    return async (request) => {
      started.inc(labels);
      const stop = seconds.startTimer(labels);
      let code: Code | undefined = Code.Internal;
      try {
        const response = await rpc(request);
        code = statusCodeOf(response);
        return response;
      } finally {
        stop();
        handled.inc({ ...labels, grpc_code: code === undefined ? "OK" : Code[code] });
      }
    };
  };
}
