import { AggregatorRegistry, type Registry } from "prom-client";

/** The processes that form one server, as one of them sees them. */
export interface PeerProcesses {
  /** True in exactly one of them: the others read its writes. */
  readonly rotates: boolean;
  /** Offers this process's report to the others. @returns A function that gets the reports of all. */
  readonly share: (own: () => Promise<Report>) => () => Promise<readonly Report[]>;
}

/** The metrics of one process, in a form that can be sent. */
export type Report = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/** The answer to a scrape: the sum over all processes, whichever of them is scraped. */
export function metricsOfAll(
  registry: Registry,
  peerProcesses: PeerProcesses | undefined,
): () => Promise<string> {
  if (!peerProcesses) return () => registry.metrics();
  const reports = peerProcesses.share(() => registry.getMetricsAsJSON());
  return async () => AggregatorRegistry.aggregate([...(await reports())]).metrics();
}
