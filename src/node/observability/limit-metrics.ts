import { Counter, type Registry } from "prom-client";
import type { Guard } from "../limits/guard.ts";
import type { LimitReached } from "../limits/limits.ts";
import { addReadGauge } from "./read-gauge.ts";

/** Counts the connections and requests that a limit refuses or ends. */
export function countLimits(registry: Registry): LimitReached {
  const reached = new Counter({
    name: "rampart_limits_reached_total",
    help: "Connections and requests that were turned away or ended, by the limit that they reached.",
    labelNames: ["limit"],
    registers: [registry],
  });
  return (limit) => reached.inc({ limit });
}

/** Adds gauges of the connections and requests that the limits bound. */
export function addGuardGauges(registry: Registry, { connections, exchanges }: Guard): void {
  addReadGauge(registry, {
    name: "rampart_connections",
    help: "Established connections of callers.",
    read: () => connections.count,
  });
  addReadGauge(registry, {
    name: "rampart_requests_under_way",
    help: "Requests of callers that have no whole answer yet.",
    read: () => exchanges.count,
  });
}
