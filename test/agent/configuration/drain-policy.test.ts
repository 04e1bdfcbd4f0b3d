import { expect, test } from "vitest";
import { drainPolicyOf } from "../../../src/agent/configuration/configuration.ts";
import { type Environment, parseVariables } from "../../../src/agent/configuration/environment.ts";

const drainOf = (environment: Environment) => drainPolicyOf(parseVariables(environment));

test.each<[Environment, number]>([
  [{}, 5_000],
  [{ TERMINATION_DRAIN_DURATION_SECONDS: "" }, 5_000],
  [{ TERMINATION_DRAIN_DURATION_SECONDS: "0" }, 0],
  [{ PROXY_CONFIG: "terminationDrainDuration: 30s" }, 30_000],
  [
    {
      PROXY_CONFIG: "terminationDrainDuration: 30s",
      TERMINATION_DRAIN_DURATION_SECONDS: "7",
      MINIMUM_DRAIN_DURATION: "1h",
    },
    7_000,
  ],
])("with %o drains for %d ms", (environment, milliseconds) => {
  expect(drainOf(environment)).toEqual({ kind: "fixed", milliseconds });
});

test.each<[Environment, number]>([
  [{}, 5_000],
  [{ MINIMUM_DRAIN_DURATION: "1m", TERMINATION_DRAIN_DURATION_SECONDS: "7" }, 60_000],
])("drains until no connection is left where it is asked to: %o", (environment, minimum) => {
  const drain = drainOf({ ...environment, EXIT_ON_ZERO_ACTIVE_CONNECTIONS: "True" });
  expect(drain).toEqual({ kind: "until-idle", minimumMilliseconds: minimum });
});
