import type { DrainPolicy } from "../envoy/drain.ts";
import type { Variables } from "./environment.ts";

const usualDrainMilliseconds = 5_000;

/** How long a supervised proxy drains. As in pilot-agent, a drain until no connection is left has no end of its own. */
export function drainPolicyOf(variables: Variables): DrainPolicy {
  const { TERMINATION_DRAIN_DURATION_SECONDS: seconds, PROXY_CONFIG } = variables;
  if (variables.EXIT_ON_ZERO_ACTIVE_CONNECTIONS) {
    return { kind: "until-idle", minimumMilliseconds: variables.MINIMUM_DRAIN_DURATION };
  }
  const given = seconds === undefined ? PROXY_CONFIG.terminationDrainMilliseconds : seconds * 1000;
  return { kind: "fixed", milliseconds: given ?? usualDrainMilliseconds };
}
