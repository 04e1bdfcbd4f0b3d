import type { ReadinessProbe } from "../../configuration/readiness-probe.ts";
import { allOf, createProber, envoyProber, type ProbeAddresses } from "./probers.ts";
import { type HealthPorts, watchHealth } from "./workload-health.ts";

/** The probe of a workload, and where it goes. */
export interface HealthSettings {
  readonly probe: ReadinessProbe;
  readonly addresses: ProbeAddresses;
  /** Envoy is asked first: no peer reaches the workload without it. */
  readonly envoyAdminPort: number;
}

/** Probes the workload until the signal aborts, and reports each change. */
export function watchWorkload(
  { probe, addresses, envoyAdminPort }: HealthSettings,
  ports: HealthPorts,
  signal: AbortSignal,
): Promise<void> {
  const ask = allOf(envoyProber(envoyAdminPort), createProber(probe.method, addresses));
  return watchHealth(probe, ask, ports, signal);
}
