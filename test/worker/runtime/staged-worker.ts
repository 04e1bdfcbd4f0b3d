import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import type { Environment } from "../../../src/worker/variables.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { bearer, callWithClient, grpcWeb, type Outcome } from "../../contract/rpc-calls.ts";
import { issuerTables, origin, type ServiceUnderTest } from "../../contract/service-under-test.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { takeAuditsOf } from "../../testkit/log/log-lines.ts";

const key = await createTokenKey("ES256", "k1");
export const { csrPem: csr } = await createWorkload();

/** `ISSUERS` with the key of the tests, so that nothing is fetched. */
export const withKeys = (...tables: readonly object[]): readonly object[] =>
  tables.map((table) => ({ ...table, jwks: jwksOf(key) }));

/** A Worker in an isolate of its own, on the storage of the test. */
interface StagedWorker extends ServiceUnderTest {
  /** Moves its clock on, which stands still otherwise. */
  readonly pass: (seconds: number) => void;
  readonly cron: () => Promise<void>;
  readonly get: (path: string, init?: RequestInit) => Promise<Response>;
  /** Calls as a workload does, with a good token if nothing else is said. */
  readonly call: (headers?: HeadersInit) => Promise<Outcome>;
  /** Goes on in an isolate that has seen no event yet. */
  readonly startIsolate: () => void;
}

/**
 * Creates a Worker that trusts the issuer `cluster`.
 *
 * @param values Of its environment, beside those of the tests; it lacks those that are `undefined`.
 * @param lines Of the console, for the audit events.
 */
export function stageWorker(
  values: Environment = {},
  options: Partial<Parameters<typeof createWorker>[0]> = {},
  lines: string[] = [],
): StagedWorker {
  const environment = Object.fromEntries(
    Object.entries({ ...env, ISSUERS: withKeys(issuerTables.cluster), ...values }).filter(
      ([, value]) => value !== undefined,
    ),
  );
  let now = new Date();
  const clock = options.clock ?? (() => now);
  const newIsolate = () => createWorker({ ...options, clock });
  let isolate = newIsolate();
  const send = (request: Request) => isolate.fetch(request, environment);
  const service = { send, key, now: clock, takeAudits: () => takeAuditsOf(lines) };
  return {
    ...service,
    pass: (seconds) => {
      now = addSeconds(now, seconds);
    },
    cron: () => isolate.scheduled(createScheduledController(), environment),
    get: (path, init) => send(new Request(new URL(path, origin), init)),
    call: async (headers) =>
      callWithClient(grpcWeb, service, { csr }, headers ?? (await bearer(service))),
    startIsolate: () => {
      isolate = newIsolate();
    },
  };
}
