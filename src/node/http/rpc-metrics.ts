import { Code } from "@connectrpc/connect";
import { Histogram, type Registry } from "prom-client";
import { Metrics } from "../../program/metrics.ts";
import type { RpcService } from "../../transport/rpc/rpc.ts";
import { statusCodeOf } from "../../transport/rpc/status-code.ts";

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
  const started = Metrics.addCounter(registry, "grpc_server_started_total", begun, ...methodLabels);
  const handled = Metrics.addCounter(
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
