import { FileStore } from "../../../src/node/files/file-store.ts";
import { openKeysHere } from "../../../src/node/key-service/key-custody.ts";
import { serve } from "../../../src/node/serve/serve.ts";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import type { RunningServer } from "../../../src/node/server.ts";
import type { ConfigurationStatus } from "../../../src/program/internal/configuration-status.ts";
import type { Telemetry } from "../../../src/program/telemetry.ts";
import { randomKek, withTenantBeside } from "../configuration.ts";
import { createEventRecorder, type EventRecorder } from "../log/event-recorder.ts";
import { lastingFolder } from "../temporary-folder.ts";
import { hangMilliseconds } from "../time/hang-limit.ts";
import { createVirtualTime, type VirtualTime } from "../time/virtual-time.ts";
import { addNamesake } from "./namesake.ts";
import { patientLimits } from "./patient-limits.ts";

/** `rampart serve` in this process, on free ports of the loopback address. */
export interface ServedCa {
  readonly server: RunningServer<ServeConfiguration>;
  readonly log: EventRecorder;
  readonly port: number;
  readonly monitoringPort: number;
  readonly storeDirectory: string;
  /** Asks its port of monitoring. */
  readonly monitored: (path: string, init?: RequestInit) => Promise<Response>;
  /** The served trust bundle, PEM. */
  readonly bundle: () => Promise<string>;
  /** Has it take on these keys beside those of the start. @returns Those that need a restart. */
  readonly reconfigure: (changes: Readonly<Record<string, unknown>>) => Promise<readonly string[]>;
  /** Ends it, and removes its store. */
  readonly end: () => Promise<void>;
}

/** The name that clients of a served CA expect in its certificate. */
export const servedName = "istiod.istio-system.svc";

/** The state of a configuration since the start of its program. */
export const unchangedConfiguration: ConfigurationStatus = {
  generation: 1,
  lastSuccess: new Date(),
  reloads: { applied: 0, refused: 0 },
  faults: [],
  awaitingRestart: [],
};

/**
 * Begins `rampart serve`. Its port for callers opens once it has an authority and a certificate.
 *
 * @param values Keys of `rampart.toml`. The others have values that work.
 * @param time The server's clock and pauses. TLS itself reads the machine's clock.
 * @param telemetry Where it exports what it measures.
 */
export async function beginServe(
  { LIMITS: limits, ...values }: Readonly<Record<string, unknown>>,
  time?: VirtualTime,
  telemetry?: Telemetry,
) {
  const clock = time?.clock ?? (() => new Date());
  const storeDirectory = await lastingFolder();
  const log = createEventRecorder();
  const complete = {
    ...(values["STORE"] === undefined && { STORE_DIRECTORY: storeDirectory }),
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
    KEK: randomKek(),
    INCEPTION_DATE: clock().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
    ...values,
    LIMITS: { ...patientLimits, ...Object(limits) },
  };
  const configuration = ServeConfiguration.parse(complete);
  const server = await serve(configuration, {
    log,
    clock,
    pause: time?.pause,
    telemetry,
    configurationStatus: () => unchangedConfiguration,
    fetchTimeoutMilliseconds: hangMilliseconds,
    // With `0s`, no load serves once another one has begun: a slow machine would have calls refused.
    ...(complete.PROPAGATION_INTERVAL === "0s" && { waitForLoad: (load) => load }),
  });
  server.address.catch(() => {});
  const monitoringPort = server.monitoringAddress.port;
  const monitored = (path: string, init?: RequestInit): Promise<Response> =>
    fetch(`http://127.0.0.1:${monitoringPort}${path}`, init);
  const reconfigure = async (changes: Readonly<Record<string, unknown>>) =>
    server.reconfigure(ServeConfiguration.parse({ ...complete, ...changes }));
  return {
    configuration,
    server,
    log,
    clock,
    storeDirectory,
    monitoringPort,
    monitored,
    reconfigure,
  };
}

/**
 * {@link beginServe} until it listens for callers.
 *
 * @param beside Who stands beside the CA: another tenant, and a CA of the same name, unless the store or KEK is the test's.
 */
export async function serveCa(
  values: Readonly<Record<string, unknown>>,
  time?: VirtualTime,
  beside: "both" | "tenant" | "nobody" = "both",
  telemetry?: Telemetry,
): Promise<ServedCa> {
  const tables = values["ISSUERS"] as readonly object[];
  const ISSUERS = beside === "nobody" ? tables : withTenantBeside(tables);
  const { configuration, clock, ...begun } = await beginServe(
    { ...values, ISSUERS },
    time,
    telemetry,
  );
  const { server, log, storeDirectory } = begun;
  const { port } = await (time?.passWhile(server.address) ?? server.address);
  const keepsKeysHere = ["STORE", "STORE_DIRECTORY", "KEK"].every((key) => !(key in values));
  if (keepsKeysHere && beside === "both") {
    const { ca, environment } = configuration;
    const { keks } = await openKeysHere(ca, environment, { log, clock });
    const store = await FileStore.open(storeDirectory);
    await addNamesake({ store, keks: keks.ring(), trustDomain: ca.trustDomain }, clock());
  }
  return {
    ...begun,
    port,
    bundle: async () => (await begun.monitored("/bundle.pem")).text(),
    end: () => server.close(1000),
  };
}

/**
 * Has a CA run some hours ago, and end: every reader of its store has its first authority and keys by now, so the next
 * server on the store waits for nobody, and mints nothing.
 */
export async function foundEarlier(values: Readonly<Record<string, unknown>>): Promise<void> {
  // A slow machine passes hundreds of seconds until the server listens.
  const time = createVirtualTime(new Date(Date.now() - 6 * 3_600_000));
  const ca = await serveCa(values, time, "nobody");
  // The second run of the rotation mints the key for tokens that follows the first.
  if ("JWT_ISSUER" in values) await time.passWhile(ca.log.until("token-key-minted", 2));
  await ca.end();
}
