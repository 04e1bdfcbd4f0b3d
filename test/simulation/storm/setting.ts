import type { ClientRules } from "./clients.ts";
import type { Scenario } from "./scenario.ts";

/** The parameters of one run. */
export interface StormSetting {
  readonly workloads: number;
  /** The rules of each client, with its share of the workloads. The shares add up to 1. */
  readonly mix: readonly (readonly [rules: ClientRules, share: number])[];
  readonly scenario: Scenario;
  readonly lifetimeSeconds: number;
  /** The time between the server's answer and its receipt. */
  readonly latencySeconds: number;
  readonly seed: number;
}

/** @throws RangeError for a setting that no run can have. */
export function requireSane({ workloads, mix, scenario, lifetimeSeconds }: StormSetting): void {
  const isWhole = (value: number): boolean => Number.isSafeInteger(value) && value > 0;
  if (!isWhole(workloads)) throw new RangeError("workloads must be a whole number above 0");
  if (!isWhole(lifetimeSeconds)) throw new RangeError("lifetime must be whole seconds above 0");
  const shares = mix.reduce((sum, [, share]) => sum + share, 0);
  if (Math.abs(shares - 1) > 1e-9 || mix.some(([, share]) => share < 0)) {
    throw new RangeError("the shares of a mix must add up to 1");
  }
  const { outage, upheaval, endsAt } = scenario;
  if (outage && upheaval) throw new RangeError("a scenario has an outage or an upheaval, not both");
  if (outage && !(outage[0] <= outage[1] && outage[1] <= endsAt)) {
    throw new RangeError("an outage must end after it begins, and before the run ends");
  }
}
