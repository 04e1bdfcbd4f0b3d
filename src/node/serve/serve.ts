import type { Registry } from "prom-client";
import type { Issuance } from "../../ca/issuance/issue-certificate.ts";
import { rotateAll } from "../../ca/rotation/rotate.ts";
import { type Composition, compose } from "../../compose/composition.ts";
import { openKeks } from "../../compose/keks.ts";
import { countingCalls, createIssuanceCounts } from "../../console/status/issuance-counts.ts";
import type { AuthorityStore } from "../../custody/authority-store.ts";
import { fetchTrusting } from "../../host/http/node-fetch.ts";
import { sharePromises } from "../../host/promise-sharing.ts";
import { recur } from "../../host/recurrence.ts";
import { createPodWatch } from "../../kubernetes/pod-watch.ts";
import type { PhaseLengths } from "../../pki/authority/schedule.ts";
import type { CertificateAuthority } from "../../transport/certificate-authority.ts";
import {
  createCertificatePath,
  createRoutes,
  isReady,
  type PortState,
} from "../../transport/http/routes.ts";
import type { Peer } from "../../transport/peer.ts";
import { createCertificateService } from "../../transport/rpc/certificate-service.ts";
import { requireCredentials } from "../files/credential-file.ts";
import { openFileStore, openSignerStores } from "../files/file-store.ts";
import { auxiliaryRpcs, type DiagnosticRpcs, rpcsOf } from "../http/auxiliary-rpcs.ts";
import { listenInPlaintext, listenWithTls } from "../http/listener.ts";
import { createMonitoringRoutes } from "../http/monitoring-routes.ts";
import type { Routes } from "../http/routes.ts";
import { createGuard } from "../limits/guard.ts";
import { thisProcess } from "../limits/quiet-collection.ts";
import { type NodeLog, openNodeLog } from "../log/node-log.ts";
import { nodeCryptoProvider } from "../node-crypto-provider.ts";
import { addAuthorityGauges, countingLog } from "../observability/ca-metrics.ts";
import { createRegistry, createRpcMetrics } from "../observability/grpc-metrics.ts";
import { addGuardGauges, countLimits } from "../observability/limit-metrics.ts";
import { metricsOfAll } from "../observability/peer-processes.ts";
import type { RunningServer, ServerContext } from "../server.ts";
import { ownCertificate } from "../tls/own-certificate.ts";
import { openWhenCertified, type RenewingListener } from "../tls/renewing-listener.ts";
import { certificateInFiles, type ServingCertificateSource } from "../tls/serving-certificate.ts";
import { countedCalls, serveConsole } from "./console.ts";
import { followPluggedIn } from "./plugged-in.ts";
import { pushRoots } from "./recurring-push.ts";
import type { ServeConfiguration } from "./serve-configuration.ts";
import { createTokenBuckets } from "./token-buckets.ts";

/** Reading a few files is cheap, so an operator's change to them takes effect within seconds. */
const longestRefreshSeconds = 2;

/**
 * Runs a whole CA in this process. It serves native gRPC, gRPC-Web, Connect and the trust bundle over TLS,
 * keeps its authorities in a directory, and rotates them by a timer.
 */
export async function serve(
  configuration: ServeConfiguration,
  serverContext: ServerContext,
): Promise<RunningServer> {
  const ending = new AbortController();
  await requireCredentials(configuration.ca.clusterCredentials);
  const store = await openFileStore(configuration.storeDirectory);
  const issuanceLog = await openLogHere(configuration, serverContext);
  try {
    const server = await serveUntil(ending, configuration, serverContext, { store, issuanceLog });
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
  readonly store: AuthorityStore;
  readonly issuanceLog: NodeLog | undefined;
}

async function openLogHere(
  { ca, storeDirectory, logShard }: ServeConfiguration,
  { log, clock, pause }: ServerContext,
): Promise<NodeLog | undefined> {
  if (!ca.log) return undefined;
  return openNodeLog({
    storeDirectory,
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
): Promise<RunningServer> {
  const { clock, pause, peerProcesses } = serverContext;
  const registry = createRegistry();
  const counts = createIssuanceCounts(countedCalls(peerProcesses), clock());
  const log = countingCalls(countingLog(serverContext.log, registry), counts, clock);
  const { trustDomain, phaseLengths } = configuration.ca;
  const context = { ...serverContext, log };
  const composition = await composeHere(configuration, context, storage, ending.signal);
  const { certificateAuthority: ca, mint, signerMints } = composition;
  const { authorities } = ca.issuance;
  addAuthorityGauges(registry, authorities, clock);
  const guard = createGuard(configuration.limits, countLimits(registry), thisProcess());
  addGuardGauges(registry, guard);
  let port: RenewingListener | undefined;
  const portState = (): PortState => port?.state() ?? { isOpen: false, reasons: [] };
  const routes = routesOf(ca, registry, ending.signal, portState, configuration.diagnosticRpcs);
  const push = pushRoots(configuration.ca, ca, {
    ...serverContext,
    registry,
    log,
  });
  const console = serveConsole({ configuration: configuration.ca, composition, counts, push });
  const page = { answer: console.answer, rpcs: rpcsOf(console.handlers) };
  const monitoring = await listenInPlaintext(
    createMonitoringRoutes(routes, metricsOfAll(registry, peerProcesses), page),
    configuration.monitoringListen,
  );
  const plaintext = configuration.plaintextListen
    ? await listenInPlaintext(routes, configuration.plaintextListen, guard).catch(async (error) => {
        await monitoring.close(0);
        throw error;
      })
    : undefined;
  // A failed rotation has logged its faults, and the next one retries.
  const importChanged = pluggedInOf(configuration, context);
  const rotate = async (): Promise<void> => {
    await importChanged(mint, clock());
    await rotateAll([mint, ...signerMints.values()], clock()).finally(push.begin);
  };
  const rotation =
    peerProcesses?.rotates === false
      ? undefined
      : recur(rotate, rotationSeconds(phaseLengths), () => {}, pause);
  port = openWhenCertified({
    certificateAt: servingCertificate(configuration, ca.issuance),
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
    close: async (grace) => {
      ending.abort();
      // A port that stays open after an error would keep the process alive.
      await using rest = new AsyncDisposableStack();
      rest.defer(guard.end);
      rest.defer(() => monitoring.close(grace));
      rest.defer(push.end);
      await Promise.all([rotation?.end(), port?.close(grace), plaintext?.close(grace)]);
    },
  };
}

/** Composes the CA on files and the platform of Node. */
async function composeHere(
  configuration: ServeConfiguration,
  { log, clock, fetchTimeoutMilliseconds }: ServerContext,
  { store, issuanceLog }: Storage,
  ending: AbortSignal,
): Promise<Composition> {
  const signerStore = await openSignerStores(configuration);
  const watchPods = createPodWatch(clock, ending);
  const files = { store, signerStore, longestRefreshSeconds };
  const fetching = { fetchTrusting, fetchTimeoutMilliseconds };
  const node = {
    cryptoProvider: nodeCryptoProvider,
    fetching,
    watchPods,
    shareWork: sharePromises,
    quotas: {
      caller: createTokenBuckets(configuration.perMinute.caller),
      issuer: createTokenBuckets(configuration.perMinute.issuer),
    },
  };
  const logs = { issuanceLog: issuanceLog?.issuanceLog, publishedLog: issuanceLog?.publishedLog };
  return compose(configuration.ca, { ...files, ...node, ...logs, log, clock });
}

function pluggedInOf(
  { importDirectory }: ServeConfiguration,
  { importPluggedIn, log }: ServerContext,
): ReturnType<typeof followPluggedIn> {
  if (importDirectory === undefined || !importPluggedIn) return async () => {};
  return followPluggedIn(importDirectory, importPluggedIn, log);
}

function servingCertificate(
  { certificateFiles, servingNames: dnsNames, ca: { leafLifetimes } }: ServeConfiguration,
  { authorities, issuanceLog }: Issuance,
): ServingCertificateSource {
  return certificateFiles
    ? certificateInFiles(certificateFiles)
    : ownCertificate({ dnsNames, authorities, leafLifetimes, issuanceLog });
}

function routesOf(
  ca: CertificateAuthority,
  registry: Registry,
  ending: AbortSignal,
  port: () => PortState,
  diagnosticRpcs: DiagnosticRpcs,
): Routes {
  const createCertificate = createRpcMetrics(registry)(
    createCertificatePath,
    createCertificateService(ca, { hasTrailers: true }),
  );
  const isServing = async (): Promise<boolean> => !ending.aborted && (await isReady(ca, port()));
  const peers = new WeakMap<Request, Peer>();
  const app = createRoutes(ca, (request) => peers.get(request) ?? {}, ending, port);
  const { forCallers, forMonitoring } = auxiliaryRpcs(isServing, diagnosticRpcs);
  return {
    rpcs: new Map([[createCertificatePath, createCertificate], ...forCallers.rpcs]),
    streamingRpcs: forCallers.streamingRpcs,
    monitoringRpcs: forMonitoring,
    fetch: async (request, peer) => {
      peers.set(request, peer);
      return app.fetch(request);
    },
    log: ca.log,
  };
}

/** Short enough for every phase of a schedule, and for an operator who waits for a rotation. */
function rotationSeconds({ longestLeafSeconds, signingSeconds }: PhaseLengths): number {
  return Math.min(60, longestLeafSeconds / 8, signingSeconds / 8);
}
