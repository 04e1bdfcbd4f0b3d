import { join } from "node:path";
import { fromGoModule, type Software } from "../software.ts";

/** A collector of OpenTelemetry that writes each request that it accepts to a file. */
export const collectorProgram = (): Promise<Software> =>
  fromGoModule(join(import.meta.dirname, "collector"), "otel-collector");

/** Its arguments: it listens on a port of the loopback address, and takes every signal. */
export function collectorWords(port: number, file: string): readonly string[] {
  const pipeline = { receivers: ["otlp"], exporters: ["lines"] };
  const config = {
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
    exporters: { lines: { path: file } },
    service: {
      telemetry: { metrics: { level: "none" } },
      pipelines: { logs: pipeline, metrics: pipeline, traces: pipeline },
    },
  };
  return [`--config=yaml:${JSON.stringify(config)}`];
}
