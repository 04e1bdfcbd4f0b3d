import { totalmem } from "node:os";
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import type { Limits } from "./limits.ts";

/** How long a measurement of memory counts, in milliseconds. */
const measurementMilliseconds = 50;

/** The part of V8's heap that may be in use before the process accepts no more work. */
const heapShare = 0.92;

/** The part of the memory of the container, or of the machine, that the process may hold by default. */
const memoryShare = 0.9;

const mebibyte = 1024 * 1024;

/**
 * Whether the process is short of memory, for each request that begins. A flood takes hundreds of mebibytes in a
 * second, so a measurement counts for much less. Garbage is no reason to refuse callers: it is collected first.
 */
export function memoryShortage(
  limits: Limits,
  clock: () => number,
  collection?: Pick<Collection, "relieve" | "dropExternal">,
): () => boolean {
  let isShort = false;
  let measuredAt = Number.NEGATIVE_INFINITY;
  return () => {
    const now = clock();
    if (now - measuredAt < measurementMilliseconds) return isShort;
    measuredAt = now;
    collection?.dropExternal(now);
    isShort = isShortOfMemory(limits);
    if (isShort && collection?.relieve(now)) isShort = isShortOfMemory(limits);
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

/** The process whose garbage is collected. */
export interface Collectable {
  /** Collects all garbage, and gives memory back to the machine. */
  readonly collect: () => void;
  /** Collects garbage in one pass, and keeps what the program soon needs again. */
  readonly collectBriefly: () => void;
  /** Octets beside V8's heap that leave with objects in it. */
  readonly external: () => number;
  /** Octets that the process holds. */
  readonly held: () => number;
  /** Octets that V8's heap may have. */
  readonly heapLimit: () => number;
  /** Milliseconds for which its event loop has been at work. */
  readonly worked: () => number;
}

/** Whether V8 may trade memory for speed: by the units' flags, not by the image's. */
const isFast = (heapLimit: number): boolean => heapLimit >= 128 * mebibyte;

/** This process; `undefined` if Node was started without `--expose-gc`. */
export function thisProcess(): Collectable | undefined {
  const { gc } = globalThis;
  const { heap_size_limit } = getHeapStatistics();
  // V8 by itself would reduce the heap after some calm seconds, whatever it costs the next callers.
  if (gc && isFast(heap_size_limit)) setFlagsFromString("--memory-reducer-gc-count=0");
  // Not its CPU: a process that a quota of CPU slows is busy too.
  const worked = () => performance.eventLoopUtilization().active;
  return (
    gc && {
      // An ordinary collection frees memory, but gives little of it back.
      collect: () => gc({ type: "major", flavor: "last-resort" }),
      collectBriefly: () => gc(),
      external: () => getHeapStatistics().external_memory,
      held: () => heldOctets() ?? 0,
      heapLimit: () => heap_size_limit,
      worked,
    }
  );
}

/** The share of its time beyond which a process is busy: what a collection takes from it, it soon needs again. */
const busyShare = 0.2;

/** How long the process must not have been busy before garbage is collected, in milliseconds. */
const calmMilliseconds = 5_000;

/** The longest time between two collections of a calm process that holds too much all the while. */
const longestCalmMilliseconds = 600_000;

/** The time between two collections while memory is short, if the former has freed much. */
const reliefMilliseconds = 1_000;

/** What a collection must have freed to make another one worthwhile while memory is short, in octets. */
const usefulOctets = 8 * mebibyte;

/**
 * How much more than the least after any collection the process must hold to make another one worthwhile while it is
 * calm, in octets: after the last one, which may have come amidst a quiet flood, it may have held too much. Ordinary
 * work takes as much as the young generation, and needs it again, as it needs the code that V8 compiled: without them,
 * each of the next thousand certificates costs half as much more. The young generation of a small heap has 6 MiB, by
 * the image's flags, and 48 by the units', which is collected every ten minutes.
 */
function worthwhileOctets(heapLimit: number, sinceCollection: number): number {
  const keepsYoung = isFast(heapLimit) && sinceCollection < longestCalmMilliseconds;
  return (keepsYoung ? 64 : 10) * mebibyte;
}

/** What must have come beside the heap. A collection costs as much as fifty calls, and honest callers send such octets too. */
const worthwhileExternalOctets = 8 * mebibyte;

/** What must have come soon after such a collection: only a flood sends so much. malloc keeps what was taken at once. */
const floodedExternalOctets = 4 * mebibyte;

/** How soon after a collection that is. */
const floodMilliseconds = 300;

/** The time between two collections of that, which would otherwise double the work of a flood of bodies. */
const dropMilliseconds = 100;

/**
 * Collects garbage when the process is short of memory, and when it is calm. V8 collects when a program allocates,
 * so a process with little work would keep what a flood took.
 */
export class Collection {
  readonly #process: Collectable;
  #least: number | undefined;
  #pause = calmMilliseconds;
  #externalBefore = Number.POSITIVE_INFINITY;
  #droppedAt = Number.NEGATIVE_INFINITY;
  #freed = 0;
  #collectedAt = Number.NEGATIVE_INFINITY;
  #sweptAt = 0;
  #worked = 0;
  #busyAt = 0;

  constructor(process: Collectable) {
    this.#process = process;
  }

  /** Collects once the process has been calm. @param now In milliseconds. */
  sweep(now: number): void {
    const worked = this.#process.worked();
    if (worked - this.#worked > busyShare * (now - this.#sweptAt)) {
      this.#busyAt = now;
      this.#pause = calmMilliseconds;
    }
    this.#worked = worked;
    this.#sweptAt = now;
    const sinceCollection = now - this.#collectedAt;
    if (Math.min(sinceCollection, now - this.#busyAt) < this.#pause) return;
    const grown = this.#process.held() - (this.#least ?? 0);
    const isWorthwhile = grown >= worthwhileOctets(this.#process.heapLimit(), sinceCollection);
    // What ordinary work holds for long is not collected again and again.
    this.#pause = isWorthwhile
      ? Math.min(2 * this.#pause, longestCalmMilliseconds)
      : calmMilliseconds;
    if (isWorthwhile) this.#collect(now);
  }

  /**
   * Collects what is beside the heap, even while the process is busy. A field of a request is such a string, which only
   * a full collection frees, and V8 makes none for tens of mebibytes of them. malloc keeps what they took.
   */
  dropExternal(now: number): void {
    const external = this.#process.external();
    this.#externalBefore = Math.min(this.#externalBefore, external);
    const since = now - this.#droppedAt;
    const worthwhile = since < floodMilliseconds ? floodedExternalOctets : worthwhileExternalOctets;
    if (since < dropMilliseconds || external < this.#externalBefore + worthwhile) return;
    this.#droppedAt = now;
    this.#process.collectBriefly();
    this.#externalBefore = this.#process.external();
  }

  /** Collects because memory is short, unless that was of no use a moment ago. @returns Whether it has. */
  relieve(now: number): boolean {
    const pause = this.#freed >= usefulOctets ? reliefMilliseconds : calmMilliseconds;
    if (now - this.#collectedAt < pause) return false;
    this.#collect(now);
    return true;
  }

  #collect(now: number): void {
    const heldBefore = this.#process.held();
    this.#process.collect();
    const held = this.#process.held();
    this.#freed = heldBefore - held;
    this.#least = Math.min(this.#least ?? held, held);
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
