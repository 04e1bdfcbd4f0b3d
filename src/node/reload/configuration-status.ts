import { Counter, Gauge, type Registry } from "prom-client";

/** The state of a configuration that may change while its program runs. */
export interface ConfigurationStatus {
  /** Counts the configurations since the start, which had the first. */
  readonly generation: number;
  /** When the file was last read without a fault. */
  readonly lastSuccess: Date;
  /** How often a configuration was read again and taken on, and how often one was refused. */
  readonly reloads: Readonly<Record<"applied" | "refused", number>>;
  /** The faults of the file, if it is not in force. */
  readonly faults: readonly string[];
  /** The keys that have changed in the file and count only after a restart. */
  readonly awaitingRestart: readonly string[];
}

/** Gives the state at this moment. */
export type StatusOfConfiguration = () => ConfigurationStatus;

/** The difference between the file and the configuration in force, one sentence each. */
export function configurationReasons({ faults, awaitingRestart }: ConfigurationStatus): string[] {
  return [
    ...faults.map((fault) => `the configuration file is not in force: ${fault}`),
    ...(awaitingRestart.length > 0 ? [restartSentence(awaitingRestart)] : []),
  ];
}

export const restartSentence = (keys: readonly string[]): string =>
  `keys of the configuration have changed that need a restart: ${keys.join(", ")}`;

/** Adds the state as metrics. Of several processes the one that is furthest behind counts. */
export function addConfigurationMetrics(registry: Registry, status: StatusOfConfiguration): void {
  const gauge = (
    name: string,
    help: string,
    aggregator: "min" | "max",
    read: (now: ConfigurationStatus) => number,
  ) =>
    new Gauge({
      name,
      help,
      aggregator,
      registers: [registry],
      collect() {
        this.set(read(status()));
      },
    });
  gauge(
    "rampart_configuration_generation",
    "The number of the configuration in force; the process began with 1.",
    "min",
    ({ generation }) => generation,
  );
  gauge(
    "rampart_configuration_reload_success",
    "1 when the configuration file had no fault at its last read.",
    "min",
    ({ faults }) => (faults.length === 0 ? 1 : 0),
  );
  gauge(
    "rampart_configuration_reload_success_timestamp",
    "When the configuration file was last read without a fault, in Unix time.",
    "min",
    ({ lastSuccess }) => lastSuccess.getTime() / 1000,
  );
  gauge(
    "rampart_configuration_keys_awaiting_restart",
    "Keys of the configuration that have changed and need a restart.",
    "max",
    ({ awaitingRestart }) => awaitingRestart.length,
  );
  new Counter({
    name: "rampart_configuration_reloads_total",
    help: "Configurations that were read again, by whether the program took them on.",
    labelNames: ["outcome"],
    registers: [registry],
    collect() {
      this.reset();
      for (const [outcome, count] of Object.entries(status().reloads)) this.inc({ outcome }, count);
    },
  });
}
