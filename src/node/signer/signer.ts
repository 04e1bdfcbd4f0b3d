import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { Counter, Gauge, type Registry } from "prom-client";
import { createLeaseCandidate } from "../../foundation/work/lease.ts";
import { leaseObject, leaseSeconds } from "../../kubernetes/lease.ts";
import { openApiServer } from "../files/api-server-place.ts";
import { tokenInFile } from "../gateway/gateway-identity.ts";
import { openUpstream } from "../gateway/upstream.ts";
import type { Listener } from "../http/listener.ts";
import { monitorWork } from "../http/monitored-work.ts";
import { createRegistry } from "../observability/grpc-metrics.ts";
import { countingOperations } from "../observability/operation-metrics.ts";
import type { ServerContext } from "../server.ts";
import type { Answered } from "./answers.ts";
import { certificatesFrom } from "./certificate-source.ts";
import { runElection } from "./leadership.ts";
import type { SignerConfiguration } from "./signer-configuration.ts";
import { answerRequests, type SignerWork } from "./signer-work.ts";

/**
 * Answers the requests of Kubernetes for certificates of its signer names, by asking the CA. It holds no
 * authority key: the CA signs, and decides what the account of this program may ask for.
 */
export async function runSigner(
  configuration: SignerConfiguration,
  context: ServerContext,
): Promise<Listener> {
  const registry = createRegistry();
  const { clock, pause } = context;
  const log = countingOperations(context.log, registry);
  const { upstream: url, upstreamRootsFile, tokenFile, cluster, lease } = configuration;
  // Work that outlives a failed start would keep a process alive that no probe can reach.
  await using starting = new AsyncDisposableStack();
  const upstream = await openUpstream(url, upstreamRootsFile);
  starting.defer(upstream.close);
  const client = await openApiServer(configuration.apiServer);
  const identity = `${hostname()}_${randomUUID()}`;
  const answered = countAnswers(registry);
  let current: SignerWork | undefined;
  const leadership = runElection({
    candidate: createLeaseCandidate(leaseObject(client.send, lease), identity, leaseSeconds),
    work: (signal) => {
      const source = certificatesFrom(upstream, tokenInFile(tokenFile, cluster), signal);
      const answering = { client, log, answered, clock, pause, signal };
      current = answerRequests(configuration, source, answering);
      return current;
    },
    log,
    clock,
    pause,
  });
  starting.defer(leadership.end);
  const readiness = (): Readiness => {
    const reasons = leadership.isLeading() ? (current?.reasons() ?? []) : [];
    return { ready: reasons.length === 0, leading: leadership.isLeading(), reasons };
  };
  addGauges(registry, readiness, () => (leadership.isLeading() ? (current?.pending() ?? 0) : 0));
  return await monitorWork(starting, {
    readiness,
    registry,
    listen: configuration.monitoringListen,
    log,
  });
}

/** A process that waits for the lease is ready to take it. */
interface Readiness {
  readonly ready: boolean;
  readonly leading: boolean;
  readonly reasons: readonly string[];
}

function countAnswers(registry: Registry): Answered {
  const answers = new Counter({
    name: "rampart_signer_answers_total",
    help: "Answers to requests of Kubernetes, by kind and outcome.",
    labelNames: ["kind", "outcome"],
    registers: [registry],
  });
  return (kind, outcome) => answers.inc({ kind, outcome });
}

function addGauges(registry: Registry, readiness: () => Readiness, pending: () => number): void {
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read());
      },
    });
  gauge("rampart_ready", "1 when nothing keeps requests from being answered.", () =>
    readiness().ready ? 1 : 0,
  );
  gauge("rampart_signer_leading", "1 when this process holds the lease.", () =>
    readiness().leading ? 1 : 0,
  );
  gauge("rampart_signer_pending", "Requests that await an answer.", pending);
}
