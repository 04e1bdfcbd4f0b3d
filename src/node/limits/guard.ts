import type { EventEmitter } from "node:events";
import { Counter, type Registry } from "prom-client";
import { addressOf } from "../../foundation/addresses.ts";
import { addReadGauge } from "../../program/metrics.ts";
import type { Program } from "../../program/program.ts";
import { refusedByPolicy } from "../../program/tls-policy.ts";
import { type Connection, Connections } from "./connections.ts";
import { type ArrivedHeaders, Doors, type ProveGateway } from "./doors.ts";
import { type Exchange, Exchanges, type Place } from "./exchanges.ts";
import type { LimitReached, Limits } from "./limits.ts";
import { type Collectable, Collection, memoryShortage, thisProcess } from "./memory.ts";

/** The limits of one server, and the state by which it applies them to callers. */
export interface Guard {
  /** Those that count now: read each for each use. */
  readonly limits: Limits;
  /** Has other limits count from now on. What callers hold beyond them, they keep until they let it go. */
  readonly follow: (next: Limits) => void;
  readonly reached: LimitReached;
  readonly connections: Connections;
  readonly exchanges: Exchanges;
  /** Absent where no gateway calls. */
  readonly doors?: Doors | undefined;
  /** Counts a handshake by its group. */
  readonly agreed: (group: string) => void;
  /** Counts a handshake that the policy refuses, and logs it. */
  readonly disagreed: (error: Error, remoteAddress: string | undefined) => void;
  /** In milliseconds; it never goes back. */
  readonly clock: () => number;
  readonly end: () => void;
}

/** The interval at which connections and exchanges are checked, in milliseconds. */
const sweepMilliseconds = 1_000;

/**
 * The guard of the ports that callers share; `end` ends its timer.
 *
 * @param collectable The process, if its garbage is to be collected after floods.
 */
export function createGuard(
  first: Limits,
  reached: LimitReached = () => {},
  collectable?: Collectable,
  prove?: ProveGateway,
): Guard {
  const clock = () => performance.now();
  const limits = { ...first };
  const connections = new Connections(limits, reached, clock);
  const collection = collectable && new Collection(collectable);
  const isShort = memoryShortage(limits, clock, collection);
  const exchanges = new Exchanges(limits, reached, clock, isShort);
  const sweep = (): void => {
    connections.sweep();
    exchanges.sweep();
    collection?.sweep(clock());
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
    doors: prove && new Doors(prove, clock),
    follow: (next) => {
      Object.assign(limits, { memory: undefined }, next);
    },
    end: () => clearTimeout(timer),
  };
}

/** A request whose head has arrived on a connection. */
interface ArrivedRequest {
  readonly headers: ArrivedHeaders;
  /** Emits `close` when its answer has left, or its caller has. */
  readonly outgoing: EventEmitter;
  /** @param address The one by which it counts. */
  readonly exchangeBy: (address: string) => Exchange;
}

/** Gives a request a place until its answer has left or its caller has; `undefined` if it is refused. */
export function track(
  { connections, exchanges, doors }: Guard,
  connection: Connection,
  { headers, outgoing, exchangeBy }: ArrivedRequest,
): Place | undefined {
  const through = doors?.through(headers);
  if (through) connections.recount(connection, through.door);
  connections.begin(connection);
  const place = exchanges.begin(exchangeBy(through?.address ?? connection.from));
  outgoing.once("close", () => {
    connections.end(connection);
    place?.leave();
  });
  const prove = doors?.proofOf(headers);
  if (!place || !prove) return place;
  const inTurn: Place["inTurn"] = (work) =>
    place.inTurn(async (passTurn) => {
      await prove();
      return work(passTurn);
    });
  return { ...place, inTurn };
}

/** The guard of a program's callers, with its metrics. It ends with the program. */
export function openGuard(
  { registry, life, log }: Program,
  limits: Limits,
  prove?: ProveGateway,
): Guard {
  const guard = createGuard(limits, countLimits(registry), thisProcess(), prove);
  life.endsWith("the limits of callers", guard.end);
  addReadGauge(registry, {
    name: "rampart_connections",
    help: "Established connections of callers.",
    read: () => guard.connections.count,
  });
  addReadGauge(registry, {
    name: "rampart_requests_under_way",
    help: "Requests of callers that have no whole answer yet.",
    read: () => guard.exchanges.count,
  });
  const agreed = countHandshakes(registry);
  return {
    ...guard,
    agreed,
    disagreed: (error, remoteAddress) => {
      const detail = refusedByPolicy(error);
      if (detail === undefined) return;
      agreed("none");
      const address = addressOf(remoteAddress);
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
