import { Counter, Gauge, type Registry } from "prom-client";
import { isExpected } from "./grpc-status.ts";
import type { XdsReport } from "./xds-activity.ts";
import type { StreamEnd } from "./xds-stream.ts";

/** The metrics of the XDS proxy, under Istio's names where Istio has them. */
export class XdsMetrics {
  readonly #failures: Counter;
  readonly #istiodEnds: Counter<"type">;
  readonly #envoyEnds: Counter<"type">;
  readonly #requests: Counter;
  readonly #responses: Counter;

  constructor(registry: Registry, report: () => XdsReport) {
    const counter = <Label extends string>(name: string, help: string, labelNames: Label[]) =>
      new Counter({ name: `istio_agent_${name}`, help, labelNames, registers: [registry] });
    this.#failures = counter("istiod_connection_failures", "connections that did not open", []);
    this.#istiodEnds = counter("istiod_connection_terminations", "ends of istiod", ["type"]);
    this.#envoyEnds = counter("envoy_connection_terminations", "ends of Envoy", ["type"]);
    this.#requests = counter("xds_proxy_requests", "requests to istiod", []);
    this.#responses = counter("xds_proxy_responses", "responses of istiod", []);
    observeTypes(registry, report);
  }

  request(): void {
    this.#requests.inc();
  }

  response(): void {
    this.#responses.inc();
  }

  ended({ by, status, wasConnected }: StreamEnd): void {
    const type = isExpected(status) ? "cancelled" : "error";
    if (by === "istiod" && !wasConnected) this.#failures.inc();
    else if (by === "istiod") this.#istiodEnds.inc({ type });
    else if (by === "envoy") this.#envoyEnds.inc({ type });
  }
}

/** Metrics that pilot-agent lacks. */
function observeTypes(registry: Registry, report: () => XdsReport): void {
  const gauge = (
    name: string,
    help: string,
    value: (type: XdsReport["types"][number]) => number | undefined,
  ): void => {
    const own = new Gauge({
      name: `istio_agent_${name}`,
      help,
      labelNames: ["type_url"],
      registers: [registry],
      collect: () => {
        own.reset();
        for (const type of report().types) {
          const current = value(type);
          if (current !== undefined) own.set({ type_url: type.typeUrl }, current);
        }
      },
    });
  };
  gauge("xds_last_push_age_seconds", "seconds since the last push", (type) => type.secondsAgo);
  gauge("xds_pushed_octets", "octets of all pushes", (type) => type.octets);
  gauge("xds_nacks", "pushes that Envoy rejected", (type) => type.nacks);
}
