import type { Hono } from "hono";
import { createEventLog, type EventLog } from "../ca/audit-event.ts";
import { rotateAll } from "../ca/rotate.ts";
import { compose } from "../compose/composition.ts";
import { rootTargets } from "../compose/root-targets.ts";
import { configurationKeys, parseConfiguration } from "../config/configuration.ts";
import type { PushLimits } from "../delivery/push-budget.ts";
import { createRootPush } from "../delivery/root-push.ts";
import { ConfigurationError } from "../foundation/configuration-error.ts";
import { writeToConsole } from "../foundation/event-log.ts";
import type { ClusterFetch } from "../foundation/json-fetch.ts";
import { webCryptoProvider } from "../pki/web-crypto-provider.ts";
import { createMisconfiguredApp } from "../transport/http/misconfigured-app.ts";
import { createRoutes } from "../transport/http/routes.ts";
import { edgeCertificateOf } from "./edge-certificate.ts";
import { createKvStore, signerStoreIn } from "./kv-store.ts";

/** Variables, secrets and bindings of the Worker; nothing in it is used unchecked. */
type Environment = Readonly<Record<string, unknown>>;

/** What an isolate does with requests and with the cron, once it has read its configuration. */
interface Isolate {
  readonly app: Hono;
  readonly runCron: (now: Date) => Promise<void>;
}

/** The time, and where events go. */
interface Surroundings {
  readonly clock: () => Date;
  readonly log: EventLog;
}

/** The handlers that the platform calls. */
export interface Worker {
  readonly fetch: (request: Request, environment: Environment) => Promise<Response>;
  /** Does the work of the cron, whatever its cron string; a throw shows as a failed run. */
  readonly scheduled: (event: ScheduledController, environment: Environment) => Promise<void>;
}

/** The Worker of one isolate. It reads its configuration with the first event, and once. */
export function createWorker(clock: () => Date): Worker {
  const surroundings = { clock, log: createEventLog(clock, writeToConsole) };
  // A value, not a promise: Workers forbid one request to wait for another's.
  let isolate: Isolate | undefined;

  async function startOnce(environment: Environment): Promise<Isolate> {
    const started = isolate ?? (await start(environment, surroundings));
    // Another request may have been first: then its caches are the ones to share.
    isolate ??= started;
    return isolate;
  }

  return {
    fetch: async (request, environment) => {
      const { app } = await startOnce(environment);
      return app.fetch(request);
    },
    scheduled: async (_event, environment) => {
      const { runCron } = await startOnce(environment);
      await runCron(clock());
    },
  };
}

/**
 * A run may make a thousand requests, with those to the store among them, or fifty on the free plan,
 * and has six connections (platform facts §5). The cron may come again after a minute or more.
 */
const pushLimits: PushLimits = {
  requests: 900,
  seconds: 120,
  clustersAtOnce: 3,
  writesAtOnce: 2,
};

async function start(environment: Environment, surroundings: Surroundings): Promise<Isolate> {
  try {
    return await startConfigured(environment, surroundings);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    return startMisconfigured(error, surroundings);
  }
}

async function startConfigured(
  environment: Environment,
  { clock, log }: Surroundings,
): Promise<Isolate> {
  const configuration = parseConfiguration(variablesOf(environment));
  const { AUTHORITIES } = environment;
  if (!isKvNamespace(AUTHORITIES)) {
    throw new ConfigurationError(["AUTHORITIES: is required, as a KV namespace binding"]);
  }
  for (const detail of configuration.warnings) {
    log.operation({ event: "configuration-warning", level: "warning", detail });
  }
  const store = createKvStore(AUTHORITIES);
  const signerStore = signerStoreIn(AUTHORITIES);
  const cryptoProvider = webCryptoProvider;
  const platform = { store, signerStore, cryptoProvider, log, clock, clusterFetch };
  const { certificateAuthority, mint, signerMints } = await compose(configuration, platform);
  const push = createRootPush({
    targets: rootTargets(configuration, clusterFetch),
    authorities: certificateAuthority.issuance.authorities,
    limits: pushLimits,
    log,
  });
  return {
    app: createRoutes(certificateAuthority, edgeCertificateOf),
    runCron: (now) =>
      rotateAll([mint, ...signerMints.values()], now).finally(() => push.deliver(now)),
  };
}

/** A Worker trusts public roots alone, and nothing that is said with a request changes that. */
const clusterFetch: ClusterFetch = (ca) => {
  if (ca === undefined) return (url, init) => fetch(url, init);
  throw new ConfigurationError(["ISSUERS: kubernetes.ca is not possible on Workers"]);
};

/**
 * What is configuration: every key of it, and other texts and lists under upper-case names, which can
 * only be mistakes. Bindings, whatever an operator adds of them, are objects.
 */
function variablesOf(environment: Environment): Record<string, unknown> {
  const variables = Object.entries(environment).filter(
    ([name, value]) =>
      configurationKeys.includes(name) || (/^[A-Z]/.test(name) && isWritten(value)),
  );
  return Object.fromEntries(variables);
}

const isWritten = (value: unknown): boolean => typeof value !== "object" || Array.isArray(value);

function startMisconfigured(error: ConfigurationError, { log }: Surroundings): Isolate {
  for (const detail of error.faults) {
    log.operation({ event: "configuration-fault", level: "error", detail });
  }
  const runCron = async (): Promise<void> => {
    throw error;
  };
  return { app: createMisconfiguredApp(error.faults), runCron };
}

function isKvNamespace(binding: unknown): binding is KVNamespace {
  return typeof binding === "object" && binding !== null && "getWithMetadata" in binding;
}
