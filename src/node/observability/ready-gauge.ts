import { Gauge, type Registry } from "prom-client";

/** Adds the gauge of readiness. @param help Its line of help, which says what a ready program does. */
export function addReadyGauge(registry: Registry, help: string, isReady: () => boolean): void {
  new Gauge({
    name: "rampart_ready",
    help,
    registers: [registry],
    collect() {
      this.set(isReady() ? 1 : 0);
    },
  });
}
