import type { RenewalPolicy } from "../../../src/agent/configuration.ts";
import { Backoff } from "../../../src/foundation/backoff.ts";
import { RenewalPlan } from "../../../src/foundation/renewal-plan.ts";
import { type RenewalRule, renewalRules } from "../../testkit/callers/renewal-rules.ts";

/** The rules by which a client asks for certificates. */
export interface ClientRules {
  readonly renewal: RenewalRule;
  /**
   * The wait after so many failed attempts in a row, in seconds.
   *
   * @param fraction Draws a number of at least 0 and less than 1.
   */
  readonly retryWait: (failures: number, fraction: () => number) => number;
  /** What repeats once the waits have stopped growing: so many attempts in so many seconds on average. */
  readonly cycle: { readonly after: number; readonly attempts: number; readonly seconds: number };
  /** Whether each call opens a connection. Node proxies keep one for all identities. */
  readonly opensConnections: boolean;
  /** The wait for a server that does not answer a connection at all. */
  readonly connectTimeoutSeconds: number;
  /** Whether it renews at once when the root of its certificate leaves the trust bundle. */
  readonly followsBundle: boolean;
}

/** Waits of a call that is tried five times, followed by the wait before the next call. */
function byCalls(
  pauseOf: (attempts: number, fraction: number) => number,
  waitOf: (calls: number, fraction: number) => number,
): ClientRules["retryWait"] {
  return (failures, fraction) => {
    const attempts = failures % Backoff.callAttempts;
    return attempts > 0
      ? pauseOf(attempts, fraction())
      : waitOf(failures / Backoff.callAttempts, fraction());
  };
}

/** An exponential back-off of others, whose pauses chance lengthens or shortens between two shares. */
const backoffOf =
  (backoff: Backoff, [least, greatest]: readonly [number, number]) =>
  (failures: number, fraction: number): number =>
    (Backoff.milliseconds(backoff, failures) / 1000) * (greatest - (greatest - least) * fraction);

/** The pauses of a call of pilot-agent (istio `pkg/security/retry.go`). */
const pauses = backoffOf({ firstMilliseconds: 100, longestMilliseconds: 800 }, [0.9, 1.1]);

/** The pauses of a call's five attempts. */
const callSeconds = 1.5;

/** The backoff by which Envoy opens an SDS stream again that has ended (Envoy `grpc_stream.h`). */
const envoyReconnects = backoffOf({ firstMilliseconds: 500, longestMilliseconds: 30_000 }, [0, 1]);

/** ztunnel's backoff of an identity (`src/identity/manager.rs`). */
const ztunnelRetries = backoffOf(
  { firstMilliseconds: 1_000, longestMilliseconds: 150_000 },
  [0.8, 1.2],
);

const epoch = new Date(0);

/** A `rampart agent` with a policy of renewal. `retryWait` and `cycle` come with the version. */
function agentRules(
  policy: RenewalPolicy,
  retries: Pick<ClientRules, "retryWait" | "cycle">,
): ClientRules {
  return {
    ...retries,
    renewal: ({ notAfter }, now, fraction) =>
      (RenewalPlan.at({ obtainedAt: now, notAfter }, policy, fraction).getTime() - now.getTime()) /
      1000,
    opensConnections: true,
    connectTimeoutSeconds: 10,
    followsBundle: true,
  };
}

const agentWait = (calls: number, fraction: number): number =>
  RenewalPlan.retryAt(calls, fraction, epoch).getTime() / 1000;

/** The defaults of SECRET_GRACE_PERIOD_RATIO and its jitter. */
export const agentRenewal: RenewalPolicy = { graceRatio: 0.55, jitter: 0.05 };

/** A call has five attempts only while none has failed. Later calls have one each. */
const agentRetryWait: ClientRules["retryWait"] = (failures, fraction) =>
  failures < Backoff.callAttempts
    ? Backoff.milliseconds(Backoff.usual.call, failures, fraction()) / 1000
    : agentWait(failures - Backoff.callAttempts + 1, fraction());

/** The clients of a mesh. Their sources are in `docs/explanation/istio.md`. */
export const clients = {
  "pilot-agent": {
    renewal: renewalRules["pilot-agent"],
    retryWait: byCalls(pauses, envoyReconnects),
    cycle: {
      after: 8 * Backoff.callAttempts,
      attempts: Backoff.callAttempts,
      seconds: 15 + callSeconds,
    },
    opensConnections: true,
    connectTimeoutSeconds: 20,
    followsBundle: false,
  },
  ztunnel: {
    renewal: renewalRules.ztunnel,
    retryWait: (failures, fraction) => ztunnelRetries(failures, fraction()),
    cycle: { after: 9, attempts: 1, seconds: 150 },
    opensConnections: false,
    connectTimeoutSeconds: 5,
    followsBundle: false,
  },
  Kmesh: {
    renewal: renewalRules.Kmesh,
    retryWait: () => 1,
    cycle: { after: 1, attempts: 1, seconds: 1 },
    opensConnections: false,
    connectTimeoutSeconds: 20,
    followsBundle: false,
  },
  "rampart agent": agentRules(agentRenewal, {
    retryWait: agentRetryWait,
    cycle: { after: 14, attempts: 1, seconds: 112.5 },
  }),
  /** As it was before this simulation: pilot-agent's jitter, and five attempts in every call. */
  "rampart agent 0.1": agentRules(
    { graceRatio: 0.5, jitter: 0.01 },
    {
      retryWait: byCalls(pauses, agentWait),
      cycle: {
        after: 9 * Backoff.callAttempts,
        attempts: Backoff.callAttempts,
        seconds: 112.5 + callSeconds,
      },
    },
  ),
} as const satisfies Readonly<Record<string, ClientRules>>;

export type ClientName = keyof typeof clients;
