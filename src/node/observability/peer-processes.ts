import { AggregatorRegistry, type Registry } from "prom-client";

/** The processes that are one server together, as one of them sees them. */
export interface PeerProcesses {
  /** True in exactly one of them: the others see what it has written. */
  readonly rotates: boolean;
  /** Has `own` told to whichever of them asks. @returns What every one of them tells now. */
  readonly share: (own: () => Promise<Report>) => () => Promise<readonly Report[]>;
}

/** The metrics of one process, in a form that can be sent. */
export type Report = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/** What a scrape is answered with: the sum of all processes, whichever of them it has come to. */
export function metricsOfAll(
  registry: Registry,
  peerProcesses: PeerProcesses | undefined,
): () => Promise<string> {
  if (!peerProcesses) return () => registry.metrics();
  const reports = peerProcesses.share(() => registry.getMetricsAsJSON());
  return async () => AggregatorRegistry.aggregate([...(await reports())]).metrics();
}
