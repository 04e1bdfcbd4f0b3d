import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";
import type { Limits } from "./limits.ts";

/** How long a measurement of memory is used, in milliseconds. */
const measurementMilliseconds = 50;

/** The part of V8's heap that may be in use before the process accepts no more work. */
const heapShare = 0.92;

/** The part of the memory of the container, or of the machine, that the process may hold by default. */
const memoryShare = 0.9;

const mebibyte = 1024 * 1024;

/**
 * Creates the check whether the process is short of memory, for each request that begins. A flood takes hundreds of
 * mebibytes in a second, so a measurement is used for much less. Before it reports a shortage, it collects garbage.
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

/**
 * The octets that a process may use: a container's limit, else the machine's memory. Without a container, Node reports
 * no limit or a larger one.
 */
export function memoryToHave(
  constrained: number = process.constrainedMemory(),
  machine: number = totalmem(),
): number {
  return constrained > 0 ? Math.min(constrained, machine) : machine;
}

/** A process whose garbage can be collected. */
export interface Collectable {
  /** Collects all garbage, and gives memory back to the machine. */
  readonly collect: () => void;
  /** Collects garbage in one pass, without giving memory back to the machine. */
  readonly collectBriefly: () => void;
  /** Octets outside V8's heap that are freed with objects in it. */
  readonly external: () => number;
  /** Octets that the process occupies (RSS). */
  readonly held: () => number;
}

/** This process; `undefined` if Node was started without `--expose-gc`. */
export function thisProcess(): Collectable | undefined {
  const { gc } = globalThis;
  return (
    gc && {
      // An ordinary collection frees memory, but gives little of it back.
      collect: () => gc({ type: "major", flavor: "last-resort" }),
      collectBriefly: () => gc(),
      external: () => getHeapStatistics().external_memory,
      held: () => heldOctets() ?? 0,
    }
  );
}

/** The time between two collections while memory is short, if the last one was useful and if it was not. */
const relief = { usefulMilliseconds: 1_000, vainMilliseconds: 5_000 };

/** How many octets a collection must free to be useful. */
const usefulOctets = 8 * mebibyte;

/**
 * The growth outside the heap, which honest callers cause, too, that justifies a collection: it costs as much as 50
 * calls.
 */
const worthwhileExternalOctets = 8 * mebibyte;

/** The growth that justifies another one soon afterwards: only a flood is so fast, and malloc keeps a peak. */
const floodedExternalOctets = 4 * mebibyte;

/** How soon after a collection `floodedExternalOctets` applies. */
const floodMilliseconds = 300;

/** The least time between two such collections, which would otherwise double the cost of a flood of bodies. */
const dropMilliseconds = 100;

/** Collects garbage when the process is short of memory, and frees memory outside the heap, which V8 hardly counts. */
export class Collection {
  readonly #process: Collectable;
  #externalBefore = Number.POSITIVE_INFINITY;
  #droppedAt = Number.NEGATIVE_INFINITY;
  #freed = 0;
  #collectedAt = Number.NEGATIVE_INFINITY;

  constructor(process: Collectable) {
    this.#process = process;
  }

  /**
   * Frees memory outside the heap, even while the process is busy. Strings such as header fields are there: only a full
   * collection frees them, for which V8 waits until they have tens of mebibytes, and malloc keeps what they took.
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

  /** Collects because memory is short, unless the last collection was too recent. @returns Whether it has. */
  relieve(now: number): boolean {
    const { usefulMilliseconds, vainMilliseconds } = relief;
    const pause = this.#freed >= usefulOctets ? usefulMilliseconds : vainMilliseconds;
    if (now - this.#collectedAt < pause) return false;
    const held = this.#process.held();
    this.#process.collect();
    this.#freed = held - this.#process.held();
    this.#collectedAt = now;
    return true;
  }
}

/** The octets that this process occupies; `undefined` if no file descriptor is left for reading them. */
function heldOctets(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}
