import { EventLog } from "../../ca/issuance/event-log.ts";
import { Rotation } from "../../ca/rotation/rotate.ts";
import { createPushes } from "../../config/cluster-access.ts";
import { Composition } from "../../config/composition.ts";
import { Configuration } from "../../config/configuration.ts";
import { ConfigurationError } from "../../foundation/errors.ts";
import type { WriteLine } from "../../foundation/events.ts";
import { SingleFlight } from "../../foundation/single-flight.ts";
import { NodeFetch } from "../../program/http/http-client.ts";
import { EnvironmentProxies } from "../../program/http/proxies.ts";
import { CaRoutes } from "../../transport/http/routes.ts";
import type { Peer } from "../../transport/rpc/rpc.ts";
import { ConfigurationFile } from "../files/configuration-file.ts";
import type { Environment } from "../files/places.ts";
import { openKeysHere } from "../key-service/key-custody.ts";
import { openBucketLog } from "../log/bucket-log.ts";
import { nodeCryptoProvider } from "../node-crypto-provider.ts";
import { ServeConfiguration } from "../serve/serve-configuration.ts";
import { bucketQuotas } from "../serve/token-buckets.ts";
import { ReplicaStores } from "../stores/stores.ts";
import { isScheduled, type LambdaAnswer, lambdaLimits, parseRequest, toAnswer } from "./events.ts";

/** An instance that has read its configuration. */
interface Instance {
  readonly answer: (request: Request, peer: Peer) => Promise<Response>;
  readonly runCron: () => Promise<void>;
}

interface LambdaOptions {
  /** The path of `rampart.toml`. */
  readonly file: string;
  /** Secrets of the configuration, and the credential for the bucket. */
  readonly environment: Environment;
  readonly clock: () => Date;
  readonly write: WriteLine;
}

/**
 * The handler of a function. It reads the configuration once in each instance, with the first event. With an invalid
 * one, requests get 503, and scheduled events reject.
 */
export function createLambda(
  options: LambdaOptions,
): (event: unknown) => Promise<LambdaAnswer | undefined> {
  const log = EventLog.create(options.clock, options.write);
  const starting = new SingleFlight<Instance>();

  /** Starts the instance. If that fails, other than by its configuration, the next event tries again. */
  const startOnce = () =>
    starting.join(
      () => start(options, log),
      () => true,
    );

  return async (event) => {
    const { answer, runCron } = await startOnce();
    if (isScheduled(event)) return void (await runCron());
    const parsed = parseRequest(event);
    const response = parsed && (await answer(parsed.request, parsed.peer));
    return toAnswer(response ?? new Response("bad request\n", { status: 400 }));
  };
}

async function start(options: LambdaOptions, log: EventLog): Promise<Instance> {
  try {
    const { file, environment } = options;
    ConfigurationFile.warnOfUnread(
      [...Configuration.keys, ...ServeConfiguration.keys],
      environment,
      log,
    );
    const values = await ConfigurationFile.read(file, environment);
    return await startConfigured(parseLambdaConfiguration(values, environment), options, log);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    for (const detail of error.faults) {
      log.operation({ event: "configuration-fault", level: "error", detail });
    }
    const app = CaRoutes.misconfigured(error.faults);
    const runCron = (): Promise<void> => Promise.reject(error);
    return { answer: async (request) => app.fetch(request), runCron };
  }
}

/** Parses a configuration of `rampart serve` with its store in a bucket; BUNDLE_WAIT is 0. @throws ConfigurationError */
export function parseLambdaConfiguration(
  values: Readonly<Record<string, unknown>>,
  environment: Environment,
): ServeConfiguration {
  const configuration = ServeConfiguration.parse(values, environment);
  if (configuration.store.kind === "s3") {
    return { ...configuration, ca: { ...configuration.ca, bundleWaitSeconds: 0 } };
  }
  throw new ConfigurationError(['STORE: must be "s3" on Lambda, where no file stays']);
}

async function startConfigured(
  configuration: ServeConfiguration,
  { clock }: LambdaOptions,
  log: EventLog,
): Promise<Instance> {
  const { ca, perMinute } = configuration;
  for (const detail of lambdaLimits) {
    log.operation({ event: "platform-limits", level: "info", detail });
  }
  EnvironmentProxies.log(log);
  for (const detail of ca.warnings) {
    log.operation({ event: "configuration-warning", level: "warning", detail });
  }
  const { propagationSeconds } = ca.phaseLengths;
  const stores = await ReplicaStores.open(configuration, {
    log,
    clock,
    propagationSeconds,
    signal: new AbortController().signal,
  });
  const keys = await openKeysHere(ca, configuration.environment, { clock, log, freezes: true });
  const means = { ...keys, trustDomain: ca.trustDomain, log, clock };
  const issuanceLog =
    ca.log &&
    configuration.logPlace &&
    (await openBucketLog(configuration.logPlace, { ...means, configuration: ca.log }));
  await issuanceLog?.prove();
  const fetching = { fetchTrusting: NodeFetch.trusting };
  const composition = await Composition.compose(ca, {
    store: stores.store,
    signerStore: stores.signerStore,
    storeLagSeconds: stores.lagSeconds,
    cryptoProvider: nodeCryptoProvider,
    log,
    clock,
    fetching,
    ...keys,
    quotas: bucketQuotas(clock, () => perMinute),
    issuanceLog: issuanceLog?.issuanceLog,
    publishedLog: issuanceLog?.publishedLog,
    idempotency: stores.idempotency,
  });
  const { certificateAuthority, mint, signerMints } = composition;
  const { deliver } = createPushes(ca, certificateAuthority, fetching, { limits: pushLimits, log });
  const peers = new WeakMap<Request, Peer>();
  const app = CaRoutes.create(certificateAuthority, (request) => peers.get(request) ?? {});
  return {
    answer: async (request, peer) => {
      peers.set(request, peer);
      return app.fetch(request);
    },
    runCron: async () => {
      const rotating = stores.inTurn(() =>
        Rotation.rotateAll([mint, ...signerMints.values()], clock()),
      );
      const results = await Promise.allSettled([rotating, issuanceLog?.publish()]);
      await stores.pushInTurn(() => deliver(clock()));
      for (const each of results) if (each.status === "rejected") throw each.reason;
    },
  };
}

/** A function may run for minutes, but the schedule calls again after one. */
const pushLimits = { requests: 2000, seconds: 45, clustersAtOnce: 3, writesAtOnce: 2 };
