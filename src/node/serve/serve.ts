import { hostname } from "node:os";
import { provedGateway } from "../../authn/proved-gateway.ts";
import { idempotentOver } from "../../ca/issuance/idempotency.ts";
import type { Platform } from "../../config/composition.ts";
import type { Readiness } from "../../foundation/events.ts";
import { createPodWatch } from "../../kubernetes/pod-watch.ts";
import { NodeFetch } from "../../program/http/http-client.ts";
import { Metrics } from "../../program/metrics.ts";
import { type Port, Program } from "../../program/program.ts";
import { Recurrence } from "../../program/recurrence.ts";
import { countingCalls, IssuanceCounts } from "../../status/issuance.ts";
import { issuingPaths } from "../../transport/http/paths.ts";
import { CaRoutes } from "../../transport/http/routes.ts";
import type { Peer } from "../../transport/rpc/rpc.ts";
import { requireCredentials } from "../files/credential-file.ts";
import { usedTokensIn } from "../files/used-tokens.ts";
import { auxiliaryRpcs } from "../http/auxiliary-rpcs.ts";
import { listenInPlaintext } from "../http/listener.ts";
import { RenewingListener } from "../http/renewing-listener.ts";
import {
  createMonitoringRoutes,
  type OperatorPage,
  type Routes,
  type Rpc,
} from "../http/routes.ts";
import { createRpcMetrics } from "../http/rpc-metrics.ts";
import { listenWithTls } from "../http/tls-listener.ts";
import { notingSpans, traced } from "../http/traced-calls.ts";
import { openKeysHere } from "../key-service/key-custody.ts";
import { type Guard, openGuard } from "../limits/guard.ts";
import { waitBriefly } from "../limits/promise-sharing.ts";
import { shareAside, Turn } from "../limits/turn.ts";
import { openBucketLog } from "../log/bucket-log.ts";
import { issuedCertificatesIn } from "../log/issued-certificates.ts";
import { type LogParts, NodeLog } from "../log/node-log.ts";
import { nodeCryptoProvider } from "../node-crypto-provider.ts";
import type { RunningServer, ServerContext } from "../server.ts";
import { ReplicaStores, storeTestSeconds, WatchedStore } from "../stores/stores.ts";
import { addAuthorityGauges, addKekGauge, countingLog } from "./ca-metrics.ts";
import { countedCalls } from "./console.ts";
import { LiveCa } from "./live-ca.ts";
import { addPushGauges, longestRotationSeconds, rotationOf } from "./recurring-work.ts";
import type { ServeConfiguration } from "./serve-configuration.ts";
import { tracedCrypto } from "./traced-parts.ts";

/** The longest time between two reads of the store. It is short, because reading a few files is cheap. */
const longestRefreshSeconds = 2;

/** Runs a complete CA in this process: RPCs over TLS, authorities in a store, and their rotation by a timer. */
export function serve(
  configuration: ServeConfiguration,
  context: ServerContext,
): Promise<RunningServer<ServeConfiguration>> {
  return Program.begin(context, (program) => openServer(configuration, program));
}

async function openServer(
  configuration: ServeConfiguration,
  program: Program<ServerContext>,
): Promise<Omit<RunningServer<ServeConfiguration>, "close">> {
  const { registry, life, clock, peerProcesses } = program;
  await requireCredentials(configuration.ca.clusterCredentials);
  const storage = await openStorage(configuration, program);
  const noted = notingSpans(program.log, program.telemetry?.spans);
  const counts = new IssuanceCounts(countedCalls(peerProcesses), clock());
  const log = countingCalls(countingLog(noted, registry), counts, clock);
  const context = { ...program, log };
  const callers: Opened["callers"] = {};
  const port = (): Readiness => {
    const { isOpen: ready, reasons } = callers.port?.state() ?? closedPort;
    return program.withLife({ ready, reasons });
  };
  const platform = { ...platformHere(context, storage), port };
  const { stores } = storage;
  const live = await LiveCa.open(configuration, { platform, context, counts, ...stores });
  life.endsWith("the delivery of roots", live.end);
  addAuthorityGauges(registry, () => live.certificateAuthority.issuance, clock);
  addKekGauge(registry, storage.keys.keks);
  addPushGauges(registry, () => live.current().push.outcomes());
  return openPorts(configuration, context, { live, stores, callers });
}

type ServedLog = Pick<NodeLog, "issuanceLog" | "publishedLog" | "end">;

interface Storage {
  readonly stores: ReplicaStores;
  readonly storeFault: () => string | undefined;
  readonly keys: Awaited<ReturnType<typeof openKeysHere>>;
  readonly issuanceLog: ServedLog | undefined;
  readonly remembered: Pick<Platform, "useToken" | "idempotency">;
  /** Aborts once no call needs what watches keep current. */
  readonly watching: AbortSignal;
}

async function openStorage(
  configuration: ServeConfiguration,
  program: Program<ServerContext>,
): Promise<Storage> {
  const { ca, store } = configuration;
  const watching = new AbortController();
  const { signal } = watching;
  program.life.endsWith("the watches", () => watching.abort());
  const { propagationSeconds } = ca.phaseLengths;
  const opened = await ReplicaStores.open(configuration, {
    ...program,
    propagationSeconds,
    signal,
  });
  const watched = new WatchedStore(opened.store, program.log);
  const polling = Recurrence.start(watched.poll, storeTestSeconds, () => {}, program.pause);
  program.life.endsWith("the looks at the store", polling.end);
  const keys = await openKeysHere(configuration.ca, configuration.environment, program);
  const remembered =
    store.kind === "directory"
      ? rememberingIn(store.directory)
      : { idempotency: opened.idempotency };
  const stores = { ...opened, store: watched };
  const storage = { stores, storeFault: watched.fault, keys, remembered };
  if (!ca.log) return { ...storage, issuanceLog: undefined, watching: signal };
  const { trustDomain, log: logged } = ca;
  const parts = { ...program, ...keys, configuration: logged, trustDomain };
  const issuanceLog = await openLog(configuration, parts);
  program.life.endsWith("the issuance log", issuanceLog.end);
  return { ...storage, issuanceLog, watching: signal };
}

const rememberingIn = (directory: string): Storage["remembered"] => ({
  useToken: usedTokensIn(directory),
  idempotency: idempotentOver(issuedCertificatesIn(directory)),
});

/** Opens the log of the configuration. A pod of a StatefulSet begins with the shard of its ordinal. */
async function openLog(
  { store, logPlace, logShard }: ServeConfiguration,
  parts: LogParts,
): Promise<ServedLog> {
  if (store.kind === "directory" && !logPlace) {
    return NodeLog.open({ ...parts, storeDirectory: store.directory, shard: logShard });
  }
  if (!logPlace) throw new Error("a log without a place");
  const [, ordinal] = /-(\d{1,4})$/.exec(hostname()) ?? [];
  const firstShard = ordinal === undefined ? undefined : Number(ordinal) + logShard;
  const log = await openBucketLog(logPlace, { ...parts, firstShard });
  return { ...log, end: await log.begin() };
}

const closedPort = { isOpen: false, reasons: [] };

interface Opened extends Pick<Storage, "stores"> {
  readonly live: LiveCa;
  /** The port of callers, once it is created. */
  readonly callers: { port?: RenewingListener };
}

/** Opens the ports, and begins the rotation once the start cannot fail any more. */
async function openPorts(
  configuration: ServeConfiguration,
  program: Program<ServerContext>,
  { live, stores, callers }: Opened,
): Promise<Omit<RunningServer<ServeConfiguration>, "close">> {
  const { registry, life, peerProcesses, pause } = program;
  const guard = openGuard(program, configuration.limits, (authorization) =>
    provedGateway(live.certificateAuthority.authenticate, authorization, program.clock()),
  );
  let [plaintext, rotation]: [Port?, Recurrence?] = [];
  life.endsWith(
    "the ports of callers and the rotation",
    (grace) => callers.port?.close(grace),
    (grace) => plaintext?.close(grace),
    () => rotation?.end(),
  );
  const routes = routesOf(live, program, life.ending);
  const metrics = Metrics.ofAll(registry, peerProcesses);
  const monitoring = createMonitoringRoutes(routes, metrics, pageOf(live));
  const monitoringAddress = await program.monitor(
    listenInPlaintext(monitoring, configuration.monitoringListen),
  );
  if (configuration.plaintextListen)
    plaintext = await listenInPlaintext(routes, configuration.plaintextListen, guard);
  rotation = Recurrence.start(
    rotationOf(live.current, program, stores),
    longestRotationSeconds,
    () => {},
    pause,
  );
  callers.port = openForCallers(configuration, program, { live, routes, guard });
  return {
    address: callers.port.address,
    plaintextAddress: plaintext?.address,
    monitoringAddress,
    reconfigure: async (next) => {
      const inPart = await live.reconfigure(next);
      guard.follow(next.limits);
      return inPart;
    },
  };
}

/** The port of callers, which opens once there is an authority to certify it. */
function openForCallers(
  { ca, listen }: ServeConfiguration,
  program: Program<ServerContext>,
  {
    live,
    routes,
    guard,
  }: { readonly live: LiveCa; readonly routes: Routes; readonly guard: Guard },
): RenewingListener {
  const { authorities } = live.certificateAuthority.issuance;
  const verification = { ...program, trustDomain: ca.trustDomain };
  return new RenewingListener({
    ...program,
    certificateAt: (now) => live.current().certificateAt(now),
    clientRootsAt: async (now) => (await authorities.at(now)).trustBundle.pem,
    listen: (credentials) => listenWithTls(routes, listen, credentials, verification, guard),
  });
}

/** The {@link Platform} on Node: its stores, its HTTP client, and its cryptography. */
function platformHere(
  { log, clock, telemetry, fetchTimeoutMilliseconds, waitForLoad = waitBriefly }: ServerContext,
  {
    stores: { store, signerStore, lagSeconds },
    storeFault,
    keys,
    issuanceLog,
    remembered,
    watching,
  }: Storage,
): Platform {
  const watchPods = createPodWatch(clock, watching);
  const lengths = { storeLagSeconds: lagSeconds, longestRefreshSeconds };
  const records = { store, signerStore, storeFault, ...keys, ...lengths };
  const fetching = {
    fetchTrusting: NodeFetch.trusting,
    fetchTimeoutMilliseconds,
    aside: Turn.aside,
  };
  const node = {
    cryptoProvider: tracedCrypto(nodeCryptoProvider, telemetry?.spans),
    fetching,
    watchPods,
    shareWork: shareAside,
    waitBriefly: waitForLoad,
  };
  const { issuanceLog: appended, publishedLog } = issuanceLog ?? {};
  return { ...records, ...node, issuanceLog: appended, publishedLog, ...remembered, log, clock };
}

/** The routes for callers. Each call is answered by the configuration that is current when it begins. */
function routesOf(
  { current, certificateAuthority: ca }: LiveCa,
  { registry, telemetry }: Pick<Program<ServerContext>, "registry" | "telemetry">,
  ending: AbortSignal,
): Routes {
  const measured = createRpcMetrics(registry);
  const issuing = issuingPaths.map((path): [string, Rpc] => [
    path,
    traced(
      telemetry?.spans,
      path,
      measured(path, (request) => current().issuing[path](request)),
    ),
  ]);
  const isServing = async (): Promise<boolean> => !ending.aborted && (await CaRoutes.isReady(ca));
  const peers = new WeakMap<Request, Peer>();
  const app = CaRoutes.create(ca, (request) => peers.get(request) ?? {}, ending);
  const where = current().configuration.diagnosticRpcs;
  const { forCallers, forMonitoring } = auxiliaryRpcs(isServing, where, ending);
  return {
    rpcs: new Map([...issuing, ...forCallers.rpcs]),
    monitoringRpcs: forMonitoring,
    fetch: async (request, peer) => {
      peers.set(request, peer);
      return app.fetch(request);
    },
    log: ca.log,
  };
}

/** Delegates each request to the console of the current configuration. */
function pageOf({ current }: LiveCa): OperatorPage {
  const rpcs = [...current().consoleRpcs.rpcs.keys()].map((path): [string, Rpc] => [
    path,
    async (request) => {
      const rpc = current().consoleRpcs.rpcs.get(path);
      if (!rpc) throw new Error(`the console answers no ${path}`);
      return rpc(request);
    },
  ]);
  const answer: OperatorPage["answer"] = (request) => current().console.answer(request);
  return { answer, rpcs: { rpcs: new Map(rpcs) } };
}
