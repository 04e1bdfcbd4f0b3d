import { IssuanceLogShard } from "../../../src/worker/log/log-shard.ts";
import { logValues } from "./log-values.ts";

/** A shard with the configuration of its tests: the environment of all other tests logs nothing. */
export class TestedLogShard extends IssuanceLogShard {
  constructor(state: DurableObjectState, environment: Readonly<Record<string, unknown>>) {
    super(state, { ...environment, ...logValues });
  }
}
