import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { commit, version } from "../foundation/build.ts";
import type { OperationLog } from "../foundation/events.ts";
import type { LogOutput } from "./log-output.ts";

/** The metrics of a program. */
export const Metrics = {
  /** Creates a registry for the metrics of a program, with those of its process. */
  create(): Registry {
    const registry = new Registry();
    collectDefaultMetrics({ register: registry });
    const labels = { version, commit };
    new Gauge({
      name: "rampart_build_info",
      help: "Always 1, with the version and the commit as labels.",
      labelNames: Object.keys(labels),
      registers: [registry],
      aggregator: "first",
    }).set(labels, 1);
    return registry;
  },

  /** Adds a gauge whose value is read at each scrape. */
  addReadGauge(registry: Registry, { read, ...gauge }: ReadGauge): void {
    new Gauge({
      ...gauge,
      registers: [registry],
      async collect() {
        this.set(await read());
      },
    });
  },

  /** Adds a counter. */
  addCounter<Label extends string = never>(
    registry: Registry,
    name: string,
    help: string,
    ...labelNames: Label[]
  ): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [registry] });
  },

  /** Adds a metric whose series are read at each scrape; a series that is not read any more disappears. */
  addReadSeries(registry: Registry, { type, name, help, labelNames = [], read }: ReadSeries): void {
    const Metric = type === "counter" ? Counter : Gauge;
    const metric: Counter | Gauge = new Metric({
      name,
      help,
      labelNames,
      registers: [registry],
      collect: () => {
        metric.reset();
        // A reset leaves a metric without labels at 0, which was never measured.
        if (labelNames.length === 0) metric.remove();
        for (const [value, labels] of read()) {
          if (metric instanceof Gauge) metric.set(labels, value);
          else metric.inc(labels, value);
        }
      },
    });
  },

  /** An instant in seconds of Unix time, as metrics have it; NaN for `undefined`. */
  unixTime: (instant: Date | undefined): number =>
    instant ? instant.getTime() / 1000 : Number.NaN,

  /** Wraps a log so that it also counts operational events, by name and level (`rampart_operations_total`). */
  countingOperations<Log extends OperationLog>(log: Log, registry: Registry): Log {
    const help = "Events of the log, by the names of the runbook.";
    const operations = Metrics.addCounter(
      registry,
      "rampart_operations_total",
      help,
      "event",
      "level",
    );
    return {
      ...log,
      operation: (event) => {
        operations.inc({ event: event.event, level: event.level });
        log.operation(event);
      },
    };
  },

  /** Answers scrapes with the metrics of all processes, whichever of them is scraped. */
  ofAll(registry: Registry, peerProcesses: PeerProcesses | undefined): () => Promise<string> {
    if (!peerProcesses) return () => registry.metrics();
    const reports = peerProcesses.share(() => registry.getMetricsAsJSON());
    return async () => AggregatorRegistry.aggregate([...(await reports())]).metrics();
  },

  /** Adds the counter of lost lines of the log; 0 without an output. */
  addLostLines(registry: Registry, output: LogOutput | undefined): void {
    Metrics.addReadSeries(registry, {
      type: "counter",
      name: "rampart_log_lines_lost_total",
      help: "Lines of the log that could not be written.",
      read: () => [[output?.lostLines() ?? 0, {}]],
    });
  },
};

/** A gauge without labels, whose value is read at each scrape. */
export interface ReadGauge {
  readonly name: string;
  readonly help: string;
  /** How the values of a program's processes are combined; by default they are added. */
  readonly aggregator?: "first" | "min" | "max";
  readonly read: () => number | Promise<number>;
}

/** The values of a metric by their labels, read at each scrape. */
interface ReadSeries {
  readonly type: "counter" | "gauge";
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly string[];
  readonly read: () => Iterable<readonly [number, Readonly<Record<string, string>>]>;
}

/** The processes that form one server, as one of them sees them. */
export interface PeerProcesses {
  /** Whether this process rotates now; the others read what it writes. For a short time two may rotate. */
  readonly rotates: () => boolean;
  /** Offers this process's report to the others. @returns A function that gets the reports of all. */
  readonly share: (own: () => Promise<Report>) => () => Promise<readonly Report[]>;
}

/** The metrics of one process, in a form that can be sent. */
export type Report = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;
