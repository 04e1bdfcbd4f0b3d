import type { AgentParts } from "../agent-parts.ts";
import type { AgentSubject } from "../configuration/configuration.ts";
import { startFileFeed } from "./file-feed.ts";
import { startSocketFeed } from "./socket-feed.ts";
import type { WorkloadFeed } from "./workload.ts";
import { WorkloadRegistry } from "./workload-registry.ts";

const socketPrefix = "unix:";

/** Keeps the identities of the feed's workloads refreshed. */
export async function startNodeMode(
  { feed, lingerMilliseconds }: Extract<AgentSubject, { mode: "node" }>,
  { configuration, identities, cache, log }: AgentParts,
): Promise<WorkloadFeed> {
  const registry = new WorkloadRegistry({
    lingerMilliseconds,
    addIdentity: (spiffeId) => void identities.add(spiffeId),
    removeIdentity: (spiffeId) => {
      identities.remove(spiffeId);
      log.operation({ event: "identity-dropped", level: "info", spiffeId });
      void cache.remove(spiffeId);
    },
  });
  const { trustDomain } = configuration;
  const path = feed.replace(socketPrefix, "");
  const start = feed.startsWith(socketPrefix) ? startSocketFeed : startFileFeed;
  const source = await start({ path, trustDomain, listener: registry, log });
  return {
    get fault() {
      return source.fault;
    },
    async close() {
      registry.close();
      await source.close();
    },
  };
}
