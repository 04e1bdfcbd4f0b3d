import type { EventEmitter } from "node:events";
import { Counter, type Registry } from "prom-client";
import { CallerAddress } from "../../foundation/shares.ts";
import { Metrics } from "../../program/metrics.ts";
import type { Program } from "../../program/program.ts";
import { CompliancePolicy } from "../../program/tls-policy.ts";
import { type Connection, Connections } from "./connections.ts";
import { type Exchange, Exchanges, type Permit } from "./exchanges.ts";
import type { LimitReached, Limits } from "./limits.ts";
import { memoryShortage } from "./memory.ts";
import {
  type ArrivedHeaders,
  type AuthenticateGateway,
  TrustedProxies,
} from "./trusted-proxies.ts";

/** The limits of one server, and the state by which it applies them to callers. */
export interface Guard {
  /** The limits in force. The object changes in place, so read a limit anew for each use. */
  readonly limits: Limits;
  /** Replaces the limits. Connections and requests beyond the new limits stay until they end by themselves. */
  readonly follow: (next: Limits) => void;
  readonly reached: LimitReached;
  readonly connections: Connections;
  readonly exchanges: Exchanges;
  /** The gateways; absent if the configuration lists none. */
  readonly trustedProxies?: TrustedProxies | undefined;
  /** Counts a handshake by its group. */
  readonly agreed: (group: string) => void;
  /** Counts a handshake that the policy refuses, and logs it. */
  readonly disagreed: (error: Error, remoteAddress: string | undefined) => void;
  /** A monotonic clock in milliseconds. */
  readonly clock: () => number;
  readonly end: () => void;
}

/** The interval at which connections and exchanges are checked, in milliseconds. */
const sweepMilliseconds = 1_000;

/** Creates the limits of the ports that callers share. It starts a timer, which `end` stops, and counts no handshakes. */
export function createGuard(
  first: Limits,
  reached: LimitReached = () => {},
  prove?: AuthenticateGateway,
): Guard {
  const clock = () => performance.now();
  const limits = { ...first };
  const connections = new Connections(limits, reached, clock);
  const isShort = memoryShortage(limits, clock);
  const exchanges = new Exchanges(limits, reached, clock, isShort);
  const sweep = (): void => {
    connections.sweep();
    exchanges.sweep();
  };
  const sweepNext = (): NodeJS.Timeout =>
    setTimeout(
      () => {
        timer = sweepNext();
        sweep();
      },
      Math.min(sweepMilliseconds, limits.progress_timeout / 2),
    ).unref();
  let timer = sweepNext();
  return {
    limits,
    reached,
    connections,
    exchanges,
    clock,
    agreed: () => {},
    disagreed: () => {},
    trustedProxies: prove && new TrustedProxies(prove, clock),
    follow: (next) => {
      Object.assign(limits, { memory: undefined }, next);
    },
    end: () => clearTimeout(timer),
  };
}

/** A request whose head has arrived on a connection. */
interface ArrivedRequest {
  readonly headers: ArrivedHeaders;
  /** Emits `close` once the response is sent or the caller is gone. */
  readonly outgoing: EventEmitter;
  /** @param address The address by which the request counts. */
  readonly exchangeBy: (address: string) => Exchange;
}

/**
 * Admits a request, and releases its permit once its response is sent or its caller is gone. A request through a
 * gateway is counted to the address that it names; an unknown credential is authenticated in the request's turn.
 *
 * @returns `undefined` if the request was refused.
 */
export function track(
  { connections, exchanges, trustedProxies }: Guard,
  connection: Connection,
  { headers, outgoing, exchangeBy }: ArrivedRequest,
): Permit | undefined {
  const forwarded = trustedProxies?.proxyOf(headers);
  if (forwarded) connections.recount(connection, forwarded.proxy);
  connections.begin(connection);
  const permit = exchanges.begin(exchangeBy(forwarded?.address ?? connection.from));
  outgoing.once("close", () => {
    connections.end(connection);
    permit?.release();
  });
  const authenticate = trustedProxies?.authenticationOf(headers);
  if (!permit || !authenticate) return permit;
  const inTurn: Permit["inTurn"] = (work) =>
    permit.inTurn(async (yieldTurn) => {
      await authenticate();
      return work(yieldTurn);
    });
  return { ...permit, inTurn };
}

/** Opens the guard of a program's callers, with metrics. The program's end closes it. */
export function openGuard(
  { registry, life, log }: Program,
  limits: Limits,
  prove?: AuthenticateGateway,
): Guard {
  const guard = createGuard(limits, countLimits(registry), prove);
  life.endsWith("the limits of callers", guard.end);
  Metrics.addReadGauge(registry, {
    name: "rampart_connections",
    help: "Established connections of callers.",
    read: () => guard.connections.count,
  });
  Metrics.addReadGauge(registry, {
    name: "rampart_requests_under_way",
    help: "Requests of callers that have no whole answer yet.",
    read: () => guard.exchanges.count,
  });
  const agreed = countHandshakes(registry);
  return {
    ...guard,
    agreed,
    disagreed: (error, remoteAddress) => {
      const detail = CompliancePolicy.refused(error);
      if (detail === undefined) return;
      agreed("none");
      const address = CallerAddress.of(remoteAddress);
      log.operation({ event: "handshake-refused", level: "warning", detail, address });
    },
  };
}

function countHandshakes(registry: Registry): Guard["agreed"] {
  const handshakes = new Counter({
    name: "rampart_tls_handshakes_total",
    help: "Handshakes with callers, by the group of their key exchange; `none` for those that `COMPLIANCE_POLICY=pqc` refused.",
    labelNames: ["group"],
    registers: [registry],
  });
  return (group) => handshakes.inc({ group });
}

/** Counts the connections and requests that a limit refuses or ends. */
function countLimits(registry: Registry): LimitReached {
  const reached = new Counter({
    name: "rampart_limits_reached_total",
    help: "Connections and requests that were turned away or ended, by the limit that they reached.",
    labelNames: ["limit"],
    registers: [registry],
  });
  return (limit) => reached.inc({ limit });
}
