import { Counter, type Registry } from "prom-client";
import type { CallOutcome } from "../gateway/call-ending.ts";

/** Counts the calls of a gateway by what happened upstream. */
export function countForwardedCalls(registry: Registry): (outcome: CallOutcome) => void {
  const calls = new Counter({
    name: "rampart_gateway_calls_total",
    help: "Calls that ended at this gateway, by what happened upstream.",
    labelNames: ["outcome"],
    registers: [registry],
  });
  return (outcome) => calls.inc({ outcome });
}
