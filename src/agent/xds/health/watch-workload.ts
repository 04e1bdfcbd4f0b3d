import type { ReadinessProbe } from "../../configuration/readiness-probe.ts";
import type { ProxyControl } from "../../status/proxy-control.ts";
import { createProber } from "./probers.ts";
import {
  type HealthPorts,
  type ProbeAddresses,
  type Prober,
  watchHealth,
} from "./workload-health.ts";

/** The probe of a workload, and where it goes. */
export interface HealthSettings {
  readonly probe: ReadinessProbe;
  readonly addresses: ProbeAddresses;
}

/** Why Envoy does not serve. */
type EnvoyFaults = Pick<ProxyControl, "faults">;

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
