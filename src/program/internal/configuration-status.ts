import type { Registry } from "prom-client";
import { Metrics, type ReadGauge } from "../metrics.ts";

/** The state of a configuration that may change while its program runs. */
export interface ConfigurationStatus {
  /** The number of the configuration: 1 at the start. */
  readonly generation: number;
  /** When the file was last read without a fault. */
  readonly lastSuccess: Date;
  /** How many reloads were applied, and how many were refused; repeated refusals for the same faults count once. */
  readonly reloads: Readonly<Record<"applied" | "refused", number>>;
  /** Why the file is not in force; empty if it is. */
  readonly faults: readonly string[];
  /** The keys that have changed in the file and apply only after a restart. */
  readonly awaitingRestart: readonly string[];
}

/** Reads the status of the configuration that is in force. */
export type StatusOfConfiguration = () => ConfigurationStatus;

/** The difference between the file and the configuration in force. One sentence each; none makes a program unready. */
export function configurationReasons({ faults, awaitingRestart }: ConfigurationStatus): string[] {
  return [
    ...faults.map((fault) => `the configuration file is not in force: ${fault}`),
    ...(awaitingRestart.length > 0 ? [restartSentence(awaitingRestart)] : []),
  ];
}

/** Says which changed keys only a restart can apply. */
export const restartSentence = (keys: readonly string[]): string =>
  `keys of the configuration have changed that need a restart: ${keys.join(", ")}`;

interface StatusGauge extends Omit<ReadGauge, "read"> {
  readonly read: (now: ConfigurationStatus) => number;
}

/** Of several processes, the one that is furthest behind is reported. */
const gauges: readonly StatusGauge[] = [
  {
    name: "rampart_configuration_generation",
    help: "The number of the configuration in force; the process began with 1.",
    aggregator: "min",
    read: ({ generation }) => generation,
  },
  {
    name: "rampart_configuration_reload_success",
    help: "1 when the configuration file had no fault at its last read.",
    aggregator: "min",
    read: ({ faults }) => (faults.length === 0 ? 1 : 0),
  },
  {
    name: "rampart_configuration_reload_success_timestamp",
    help: "When the configuration file was last read without a fault, in Unix time.",
    aggregator: "min",
    read: ({ lastSuccess }) => Metrics.unixTime(lastSuccess),
  },
  {
    name: "rampart_configuration_keys_awaiting_restart",
    help: "Keys of the configuration that have changed and need a restart.",
    aggregator: "max",
    read: ({ awaitingRestart }) => awaitingRestart.length,
  },
];

/** Adds the metrics of the configuration; none without a `status`. */
export function addConfigurationMetrics(
  registry: Registry,
  status: StatusOfConfiguration | undefined,
): void {
  if (!status) return;
  for (const { read, ...gauge } of gauges) {
    Metrics.addReadGauge(registry, { ...gauge, read: () => read(status()) });
  }
  Metrics.addReadSeries(registry, {
    type: "counter",
    name: "rampart_configuration_reloads_total",
    help: "Configurations that were read again: applied, refused.",
    labelNames: ["outcome"],
    read: () => Object.entries(status().reloads).map(([outcome, count]) => [count, { outcome }]),
  });
}
