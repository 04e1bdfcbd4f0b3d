import { Gauge, type Registry } from "prom-client";

/** A gauge without labels, whose value is read whenever somebody asks for the metrics. */
export interface ReadGauge {
  readonly name: string;
  readonly help: string;
  /** Whose value counts among the processes of one program. By default it is the sum of all. */
  readonly aggregator?: "first" | "min" | "max";
  readonly read: () => number | Promise<number>;
}

export function addReadGauge(registry: Registry, { read, ...gauge }: ReadGauge): void {
  new Gauge({
    ...gauge,
    registers: [registry],
    async collect() {
      this.set(await read());
    },
  });
}

/** Adds the gauge of readiness. @param help Its line of help, which says what a ready program does. */
export function addReadyGauge(registry: Registry, help: string, isReady: () => boolean): void {
  addReadGauge(registry, { name: "rampart_ready", help, read: () => (isReady() ? 1 : 0) });
}

/** An instant as metrics have it, in Unix time. NaN stands for none. */
export const unixTime = (instant: Date | undefined): number =>
  instant ? instant.getTime() / 1000 : Number.NaN;
