import type { Registry } from "prom-client";
import type { Platform } from "../../config/composition.ts";
import { openKeks } from "../../config/keks.ts";
import { createPodWatch } from "../../kubernetes/pod-watch.ts";
import {
  addConfigurationMetrics,
  withConfigurationReasons,
} from "../../program/configuration-status.ts";
import { fetchTrusting } from "../../program/http/node-fetch.ts";
import { createRegistry, metricsOfAll } from "../../program/metrics.ts";
import { sharePromises, waitBriefly } from "../../program/promise-sharing.ts";
import { recur } from "../../program/recurrence.ts";
import type { Reconfigure } from "../../program/running-configuration.ts";
import { countingCalls, IssuanceCounts } from "../../status/issuance.ts";
import type { PortState } from "../../transport/http/routes.ts";
import { addGuardGauges, countLimits } from "../caller-metrics.ts";
import { requireCredentials } from "../files/configuration-file.ts";
import { listenInPlaintext, listenWithTls } from "../http/listener.ts";
import { RenewingListener } from "../http/renewing-listener.ts";
import { createMonitoringRoutes } from "../http/routes.ts";
import { createGuard, thisProcess } from "../limits/guard.ts";
import { type NodeLog, openNodeLog } from "../log/node-log.ts";
import { nodeCryptoProvider } from "../node-crypto-provider.ts";
import type { RunningServer, ServerContext } from "../server.ts";
import { openReplicaStores, type ReplicaStores } from "../stores/stores.ts";
import { addAuthorityGauges, countingLog } from "./ca-metrics.ts";
import { countedCalls } from "./console.ts";
import { type LiveCa, openLiveCa } from "./live-ca.ts";
import { addPushGauges } from "./recurring-push.ts";
import { longestRotationSeconds, rotationOf } from "./recurring-rotation.ts";
import type { ServeConfiguration } from "./serve-configuration.ts";
import { pageOf, routesOf } from "./serve-routes.ts";

/** Reading a few files is cheap, and a watch costs nothing: a change takes effect within seconds. */
const longestRefreshSeconds = 2;

/** A server that takes on another configuration while it runs. */
export interface ReconfigurableServer extends RunningServer {
  readonly reconfigure: Reconfigure<ServeConfiguration>;
}

/**
 * Runs a whole CA in this process. It serves native gRPC, gRPC-Web, Connect and the trust bundle over TLS,
 * keeps its authorities in a store, and rotates them by a timer.
 */
export async function serve(
  configuration: ServeConfiguration,
  serverContext: ServerContext,
): Promise<ReconfigurableServer> {
  const ending = new AbortController();
  await requireCredentials(configuration.ca.clusterCredentials);
  const stores = await openReplicaStores(configuration, {
    ...serverContext,
    propagationSeconds: configuration.ca.phaseLengths.propagationSeconds,
    signal: ending.signal,
  });
  const issuanceLog = await openLogHere(configuration, serverContext);
  try {
    const server = await serveUntil(ending, configuration, serverContext, { stores, issuanceLog });
    return {
      ...server,
      // Calls under way may still append.
      close: (grace) => server.close(grace).finally(() => issuanceLog?.end()),
    };
  } catch (error) {
    // Work that goes on after a failed start would keep the process alive.
    ending.abort();
    await issuanceLog?.end();
    throw error;
  }
}

/** The storage of a server. */
interface Storage {
  readonly stores: ReplicaStores;
  readonly issuanceLog: NodeLog | undefined;
}

async function openLogHere(
  { ca, store, logShard }: ServeConfiguration,
  { log, clock, pause }: ServerContext,
): Promise<NodeLog | undefined> {
  if (!ca.log || store.kind !== "directory") return undefined;
  return openNodeLog({
    storeDirectory: store.directory,
    configuration: ca.log,
    shard: logShard,
    trustDomain: ca.trustDomain,
    keks: await openKeks(ca),
    log,
    clock,
    pause,
  });
}

async function serveUntil(
  ending: AbortController,
  configuration: ServeConfiguration,
  serverContext: ServerContext,
  storage: Storage,
): Promise<ReconfigurableServer> {
  const { clock, pause, peerProcesses, configurationStatus } = serverContext;
  const registry = createRegistry();
  const counts = new IssuanceCounts(countedCalls(peerProcesses), clock());
  const log = countingCalls(countingLog(serverContext.log, registry), counts, clock);
  const { trustDomain } = configuration.ca;
  const context = { ...serverContext, log };
  const platform = await platformHere(context, storage, ending.signal);
  const { pushInTurn } = storage.stores;
  const live = await openLiveCa(configuration, { platform, context, counts, pushInTurn });
  const { authorities } = live.certificateAuthority.issuance;
  addGauges(registry, live, context);
  const guard = createGuard(configuration.limits, countLimits(registry), thisProcess());
  addGuardGauges(registry, guard);
  let port: RenewingListener | undefined;
  const portState = (): PortState =>
    withConfigurationReasons(port?.state() ?? closedPort, configurationStatus);
  const routes = routesOf(live, registry, ending.signal, portState);
  const monitoring = await listenInPlaintext(
    createMonitoringRoutes(routes, metricsOfAll(registry, peerProcesses), pageOf(live)),
    configuration.monitoringListen,
  );
  const plaintext = configuration.plaintextListen
    ? await listenInPlaintext(routes, configuration.plaintextListen, guard).catch(async (error) => {
        await monitoring.close(0);
        throw error;
      })
    : undefined;
  const rotation =
    peerProcesses?.rotates === false
      ? undefined
      : recur(rotationOf(live, context, storage.stores), longestRotationSeconds, () => {}, pause);
  port = new RenewingListener({
    certificateAt: (now) => live.current().certificateAt(now),
    clientRootsAt: async (now) => (await authorities.at(now)).trustBundle.pem,
    listen: (credentials) =>
      listenWithTls(routes, configuration.listen, credentials, { trustDomain, clock, log }, guard),
    log,
    clock,
    pause,
  });
  const { address } = port;
  return {
    address,
    plaintextAddress: plaintext?.address,
    monitoringAddress: monitoring.address,
    reconfigure: async (next) => {
      const inPart = await live.reconfigure(next);
      guard.follow(next.limits);
      return inPart;
    },
    close: async (grace) => {
      ending.abort();
      // A port that stays open after an error would keep the process alive.
      await using rest = new AsyncDisposableStack();
      rest.defer(guard.end);
      rest.defer(() => monitoring.close(grace));
      rest.defer(live.end);
      await Promise.all([rotation?.end(), port?.close(grace), plaintext?.close(grace)]);
    },
  };
}

const closedPort: PortState = { isOpen: false, reasons: [] };

function addGauges(
  registry: Registry,
  { current, certificateAuthority }: LiveCa,
  { clock, configurationStatus }: ServerContext,
): void {
  addAuthorityGauges(registry, certificateAuthority.issuance, clock);
  addPushGauges(registry, () => current().push.outcomes());
  addConfigurationMetrics(registry, configurationStatus);
}

/** The means of Node: its stores, its HTTP client, and its cryptography. */
async function platformHere(
  { log, clock, fetchTimeoutMilliseconds }: ServerContext,
  { stores: { store, signerStore, lagSeconds }, issuanceLog }: Storage,
  ending: AbortSignal,
): Promise<Platform> {
  const watchPods = createPodWatch(clock, ending);
  const records = { store, signerStore, storeLagSeconds: lagSeconds, longestRefreshSeconds };
  const fetching = { fetchTrusting, fetchTimeoutMilliseconds };
  const node = {
    cryptoProvider: nodeCryptoProvider,
    fetching,
    watchPods,
    shareWork: sharePromises,
    waitBriefly,
  };
  const logs = { issuanceLog: issuanceLog?.issuanceLog, publishedLog: issuanceLog?.publishedLog };
  return { ...records, ...node, ...logs, log, clock };
}
