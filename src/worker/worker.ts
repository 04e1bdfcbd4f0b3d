import type { Hono } from "hono";
import { EventLog } from "../ca/issuance/event-log.ts";
import { Rotation } from "../ca/rotation/rotate.ts";
import { createPushes } from "../config/cluster-access.ts";
import { Composition } from "../config/composition.ts";
import { Configuration } from "../config/configuration.ts";
import type { LogConfiguration } from "../config/optional-parts.ts";
import type { OpenPlatformKeys } from "../config/platform-keys.ts";
import type { PushLimits } from "../delivery/push-to-cluster.ts";
import { ConfigurationError } from "../foundation/errors.ts";
import { WriteLine } from "../foundation/events.ts";
import type { Fetching } from "../foundation/fetch.ts";
import { Base64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { webCryptoProvider } from "../pki/web-crypto.ts";
import { CaRoutes } from "../transport/http/routes.ts";
import type { Peer } from "../transport/rpc/rpc.ts";
import { boundQuotas, countingInDataset, workerLimits } from "./bindings.ts";
import type { AddConsole } from "./console.ts";
import { kvStores } from "./kv-store.ts";
import type { OpenWorkerLog, WorkerLog } from "./log/worker-log.ts";
import {
  type Environment,
  isBinding,
  StoredSecretError,
  variablesOf,
  type Worker,
  withStoredSecrets,
} from "./variables.ts";

interface Isolate {
  readonly app: Hono;
  readonly runCron: (now: Date) => Promise<void>;
  /** Whether this start failed for a passing reason, so that the next event starts again. */
  readonly isPassing?: boolean;
}

interface WorkerOptions {
  readonly clock: () => Date;
  /** The timeout of requests to issuers and API servers, which has a default. */
  readonly fetchTimeoutMilliseconds?: number | undefined;
  /** Absent from a main module without a log, which is smaller. */
  readonly openLog?: OpenWorkerLog | undefined;
  /** Absent from a main module without the console, which is smaller. */
  readonly addConsole?: AddConsole | undefined;
  /** Absent from a main module without key services, which is smaller. */
  readonly openKeyCustody?: OpenPlatformKeys | undefined;
  /** Continues work after the response to the request that began it. */
  readonly inBackground?: ((work: Promise<void>) => void) | undefined;
}

interface IsolateContext extends WorkerOptions {
  readonly log: EventLog;
}

/**
 * The Worker of one isolate. It reads its configuration once, with the first event. With an invalid one, every RPC gets
 * 503 and every cron throws, for the isolate's life, unless only a stored secret could not be read.
 */
export function createWorker(options: WorkerOptions): Worker {
  const { clock } = options;
  const context = { ...options, log: EventLog.create(clock, WriteLine.toConsole) };
  // A value, not a promise: workerd cancels a request that waits for the promise of another.
  let isolate: Isolate | undefined;

  async function startOnce(environment: Environment): Promise<Isolate> {
    if (isolate) return isolate;
    const started = await start(environment, context);
    if (started.isPassing) return started;
    // Another request may have started a CA meanwhile. Then all requests use that one and its caches.
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
 * The limits of one push. A run of the cron may use KV 1000 times, and make 50 requests in all on the free
 * plan. It has six connections at once (Cloudflare's limits of KV and of Workers). The next run may begin
 * a minute later.
 */
const pushLimits: PushLimits = {
  requests: 900,
  seconds: 120,
  clustersAtOnce: 3,
  writesAtOnce: 2,
};

async function start(environment: Environment, context: IsolateContext): Promise<Isolate> {
  try {
    return await startConfigured(await withStoredSecrets(environment), context);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    return startMisconfigured(error, context);
  }
}

async function startConfigured(
  environment: Environment,
  { clock, fetchTimeoutMilliseconds, openLog, addConsole, ...context }: IsolateContext,
): Promise<Isolate> {
  const log = countingInDataset(context.log, environment);
  const configuration = Configuration.parse(variablesOf(environment));
  const { AUTHORITIES } = environment;
  if (!isBinding<KVNamespace>(AUTHORITIES, "getWithMetadata")) {
    throw new ConfigurationError(["AUTHORITIES: is required, as a KV namespace binding"]);
  }
  log.operation({ event: "platform-limits", level: "info", detail: workerLimits });
  for (const detail of configuration.warnings) {
    log.operation({ event: "configuration-warning", level: "warning", detail });
  }
  const fetching = { fetchTrusting, fetchTimeoutMilliseconds };
  const composition = await Composition.compose(configuration, {
    ...kvStores(AUTHORITIES),
    cryptoProvider: webCryptoProvider,
    log,
    clock,
    fetching,
    quotas: boundQuotas(environment, log),
    ...logOf(configuration.log, environment, openLog),
    keyCustody: context.openKeyCustody?.(configuration, {
      fetch: fetchTrusting(undefined),
      clock,
      monotonic: () => performance.now(),
      random: Math.random,
    }),
    inBackground: context.inBackground,
  });
  const { certificateAuthority, mint, signerMints } = composition;
  const { roots, crls, deliver } = createPushes(configuration, certificateAuthority, fetching, {
    limits: pushLimits,
    log,
  });
  const app = CaRoutes.create(certificateAuthority, edgePeerOf);
  if (configuration.console && addConsole) {
    addConsole(app, {
      configuration,
      console: configuration.console,
      composition,
      push: roots,
      crlPush: crls,
      environment,
    });
  } else addConsoleNotice(app, configuration, log);
  return {
    app,
    runCron: (now) =>
      Rotation.rotateAll([mint, ...signerMints.values()], now).finally(() => deliver(now)),
  };
}

/** Explains, at the console's address and in the log, how to turn the console on. */
function addConsoleNotice(app: Hono, { console }: Configuration, log: EventLog): void {
  const detail = console
    ? "CONSOLE_TOKENS, CONSOLE_ACCESS: need main = src/worker/main-with-console.ts"
    : "The console is off: CONSOLE_TOKENS or CONSOLE_ACCESS says who may see it (`rampart docs console`).";
  if (console) log.operation({ event: "configuration-warning", level: "warning", detail });
  app.get("/", (c) => c.text(`${detail}\n`, 404, { "cache-control": "no-store" }));
}

function logOf(
  configuration: LogConfiguration | undefined,
  environment: Environment,
  openLog: OpenWorkerLog | undefined,
): WorkerLog | undefined {
  if (!configuration) return undefined;
  if (openLog) return openLog(configuration, environment);
  throw new ConfigurationError(["LOG_ORIGIN: needs main = src/worker/main-with-log.ts"]);
}

/** Throws for given roots: a Worker trusts public roots alone, and `fetch` has no option for others. */
const fetchTrusting: Fetching["fetchTrusting"] = (roots) => {
  if (roots === undefined) return (url, init) => fetch(url, init);
  throw new ConfigurationError([
    "ISSUERS, UPSTREAM_AUTHORITY: a ca of its own is not possible on Workers",
  ]);
};

function startMisconfigured(error: ConfigurationError, { log }: IsolateContext): Isolate {
  for (const detail of error.faults) {
    log.operation({ event: "configuration-fault", level: "error", detail });
  }
  const runCron = async (): Promise<void> => {
    throw error;
  };
  const isPassing = error instanceof StoredSecretError;
  return { app: CaRoutes.misconfigured(error.faults), runCron, isPassing };
}

/** The fields of `cf.tls_client_auth` that are used (Cloudflare's field reference; docs/explanation/platform.md). */
interface EdgeVerdict {
  readonly tlsClientAuth?: Partial<
    Readonly<Record<"certVerified" | "certRevoked" | "certRFC9440", unknown>>
  >;
}

/**
 * The client certificate, if Cloudflare's edge has verified it against the CA of the zone and found it not revoked. The
 * edge passes the certificate on whatever its verdict, so both fields of the verdict are required.
 *
 * Headers are ignored, because anybody can set them on the way through a zone.
 */
function edgeCertificateOf(request: Request): Bytes | undefined {
  const { tlsClientAuth: auth } = (request.cf ?? {}) as EdgeVerdict;
  if (auth?.certVerified !== "SUCCESS" || auth.certRevoked !== "0") return undefined;
  const { certRFC9440 } = auth;
  return typeof certRFC9440 === "string" ? parseByteSequence(certRFC9440) : undefined;
}

/** The longest IPv6 address in text. */
const maximumAddressLength = 45;

/** The peer of a request. The edge sets `CF-Connecting-IP` itself, whatever the caller sends. */
export function edgePeerOf(request: Request): Peer {
  const address = request.headers.get("cf-connecting-ip")?.slice(0, maximumAddressLength);
  return { clientCertificate: edgeCertificateOf(request), address };
}

/** A Byte Sequence of RFC 8941 §3.3.5, as RFC 9440 §2.1 uses it: base64 between colons. */
function parseByteSequence(text: string): Bytes | undefined {
  const [, base64] = /^:([A-Za-z0-9+/]+={0,2}):$/.exec(text) ?? [];
  return base64 === undefined ? undefined : Base64.parse(base64);
}
