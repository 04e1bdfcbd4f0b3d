import type { EventEmitter } from "node:events";
import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";
import { Counter, type Registry } from "prom-client";
import { addReadGauge } from "../../program/metrics.ts";
import type { Program } from "../../program/program.ts";
import { type Connection, Connections } from "./connections.ts";
import { type Exchange, Exchanges, type Place } from "./exchanges.ts";
import type { LimitReached, Limits } from "./limits.ts";

/** The limits of one server, and the state by which it applies them to callers. */
export interface Guard {
  /** Those that count now: read each for each use. */
  readonly limits: Limits;
  /** Has other limits count from now on. What callers hold beyond them, they keep until they let it go. */
  readonly follow: (next: Limits) => void;
  readonly reached: LimitReached;
  readonly connections: Connections;
  readonly exchanges: Exchanges;
  /** In milliseconds; it never goes back. */
  readonly clock: () => number;
  readonly end: () => void;
}

/** The interval at which connections and exchanges are checked, in milliseconds. */
const sweepMilliseconds = 1_000;

/** How long a measurement of memory counts, in milliseconds. */
const measurementMilliseconds = 50;

/** The part of V8's heap that may be in use before the process accepts no more work. */
const heapShare = 0.92;

/** The part of the memory of the container, or of the machine, that the process may hold by default. */
const memoryShare = 0.9;

const mebibyte = 1024 * 1024;

/**
 * The guard of the ports that callers share; `end` ends its timer.
 *
 * @param collectable The process, if its garbage is to be collected when these callers are quiet.
 */
export function createGuard(
  first: Limits,
  reached: LimitReached = () => {},
  collectable?: Collectable,
): Guard {
  const clock = () => performance.now();
  const limits = { ...first };
  const connections = new Connections(limits, reached, clock);
  const exchanges = new Exchanges(limits, reached, clock, memoryShortage(limits, clock));
  const collection = collectable && new QuietCollection(collectable);
  const sweep = (): void => {
    connections.sweep();
    exchanges.sweep();
    collection?.sweep(exchanges.begunAt, clock());
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
    ...{ limits, reached, connections, exchanges, clock },
    follow: (next) => {
      Object.assign(limits, { memory: undefined }, next);
    },
    end: () => clearTimeout(timer),
  };
}

/** Gives a request a place until its answer has left or its caller has; `undefined` if it is refused. */
export function track(
  { connections, exchanges }: Guard,
  connection: Connection,
  exchange: Exchange,
  outgoing: EventEmitter,
): Place | undefined {
  connections.begin(connection);
  const place = exchanges.begin(exchange);
  outgoing.once("close", () => {
    connections.end(connection);
    place?.leave();
  });
  return place;
}

/**
 * Whether the process is short of memory, for each request that begins. A flood takes hundreds of mebibytes in a
 * second, so a measurement counts for much less.
 */
function memoryShortage(limits: Limits, clock: () => number): () => boolean {
  let isShort = false;
  let measuredAt = Number.NEGATIVE_INFINITY;
  return () => {
    const now = clock();
    if (now - measuredAt < measurementMilliseconds) return isShort;
    measuredAt = now;
    isShort = isShortOfMemory(limits);
    return isShort;
  };
}

function isShortOfMemory({ memory }: Limits): boolean {
  const watermark = memory === undefined ? memoryShare * memoryToHave() : memory * mebibyte;
  const held = heldOctets();
  if (held === undefined || held > watermark) return true;
  const { used_heap_size, heap_size_limit } = getHeapStatistics();
  return used_heap_size > heapShare * heap_size_limit;
}

/** Octets. Without a limit of a container, Node reports none or one beyond the machine's memory. */
function memoryToHave(): number {
  const constrained = process.constrainedMemory();
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
}

/** How long no request may have begun before garbage is collected, in milliseconds. */
const quietMilliseconds = 5_000;

/** What the process must have taken since the last collection to make another one worthwhile, in octets. */
const worthwhileOctets = 8 * 1024 * 1024;

/** The process whose garbage is collected. */
interface Collectable {
  /** Collects all garbage, and gives memory back to the machine. */
  readonly collect: () => void;
  /** Octets that the process holds. */
  readonly held: () => number;
}

/** This process; `undefined` if Node was started without `--expose-gc`. */
export function thisProcess(): Collectable | undefined {
  const { gc } = globalThis;
  // An ordinary collection frees memory, but gives little of it back.
  const collect = gc && (() => gc({ type: "major", flavor: "last-resort" }));
  return collect && { collect, held: () => heldOctets() ?? 0 };
}

/**
 * Collects garbage when the process has become quiet. V8 collects when a program allocates, so a
 * process without work would keep what a flood took.
 */
export class QuietCollection {
  readonly #process: Collectable;
  #heldBefore = 0;
  /** Native memory of sockets leaves after the objects that own it, for the next collection. */
  #hasFreedMuch = false;
  #collectedAt = 0;

  constructor(process: Collectable) {
    this.#process = process;
  }

  /** @param begunAt When the last request began, on the same clock as `now`. */
  sweep(begunAt: number, now: number): void {
    if (now - Math.max(begunAt, this.#collectedAt) < quietMilliseconds) return;
    const held = this.#process.held();
    if (!this.#hasFreedMuch && held < this.#heldBefore + worthwhileOctets) return;
    this.#process.collect();
    this.#heldBefore = this.#process.held();
    this.#hasFreedMuch = held - this.#heldBefore >= worthwhileOctets;
    this.#collectedAt = now;
  }
}

/**
 * The octets that this process holds; `undefined` while it cannot tell, because no descriptor is left with which
 * to read them.
 */
function heldOctets(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}

/** The guard of a program's callers, with its metrics. It ends with the program. */
export function openGuard({ registry, life }: Program, limits: Limits): Guard {
  const guard = createGuard(limits, countLimits(registry), thisProcess());
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
  return guard;
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
