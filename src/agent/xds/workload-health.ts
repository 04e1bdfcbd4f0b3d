import type { OperationLog } from "../../foundation/event-log.ts";
import type { Pause } from "../../foundation/work/pause.ts";
import type { ReadinessProbe } from "../configuration/proxy-config.ts";
import type { HealthSettings } from "../configuration/xds-settings.ts";
import { createProber, type Prober } from "./probers.ts";
import type { Health } from "./xds-stream.ts";

/** The dependencies of the probes on their agent. */
interface HealthPorts {
  readonly pause: Pause;
  readonly log: OperationLog;
  readonly report: (health: Health) => void;
}

const longestFault = 500;

/**
 * Probes the workload until the signal aborts, and reports each change of its health. The workload counts as
 * unhealthy at first, so the first report says that it is healthy.
 */
export async function watchHealth(
  probe: Omit<ReadinessProbe, "method">,
  ask: Prober,
  { pause, log, report }: HealthPorts,
  signal: AbortSignal,
): Promise<void> {
  let isHealthy = false;
  let streak = 0;
  await pause(1000 * probe.initialDelaySeconds, signal);
  while (!signal.aborted) {
    const fault = await askInTime(ask, probe.timeoutSeconds, pause, signal);
    if (signal.aborted) return;
    const isChange = (fault === undefined) !== isHealthy;
    streak = isChange ? streak + 1 : 0;
    if (streak === (isHealthy ? probe.failureThreshold : probe.successThreshold)) {
      isHealthy = !isHealthy;
      streak = 0;
      report({ fault });
      log.operation({
        event: isHealthy ? "workload-healthy" : "workload-unhealthy",
        level: isHealthy ? "info" : "warning",
        ...(fault !== undefined && { detail: fault }),
      });
    }
    await pause(1000 * probe.periodSeconds, signal);
  }
}

async function askInTime(
  ask: Prober,
  seconds: number,
  pause: Pause,
  signal: AbortSignal,
): Promise<string | undefined> {
  const ending = new AbortController();
  const stop = AbortSignal.any([signal, ending.signal]);
  const late = pause(1000 * seconds, stop).then(() => `no answer within ${seconds} s`);
  const fault = await Promise.race([ask(stop), late]);
  ending.abort();
  return fault?.slice(0, longestFault);
}

/** Why Envoy does not serve. */
interface EnvoyFaults {
  faults(): Promise<readonly string[]>;
}

/** Probes the workload until the signal aborts, and reports each change. */
export function watchWorkload(
  { probe, addresses }: HealthSettings,
  ports: HealthPorts & { readonly proxy: EnvoyFaults | undefined },
  signal: AbortSignal,
): Promise<void> {
  const ask = behind(ports.proxy, createProber(probe.method, addresses));
  return watchHealth(probe, ask, ports, signal);
}

/** Asks Envoy before the workload, because no peer reaches the workload without it. */
export function behind(proxy: EnvoyFaults | undefined, ask: Prober): Prober {
  return async (signal) => (await proxy?.faults())?.[0] ?? (await ask(signal));
}
