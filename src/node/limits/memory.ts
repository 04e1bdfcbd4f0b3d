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
 * mebibytes in a second, so a measurement is outdated long before. If memory cannot be measured, it counts as short.
 */
export function memoryShortage(limits: Limits, clock: () => number): () => boolean {
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

/** The octets that this process occupies; `undefined` if no file descriptor is left for reading them. */
function heldOctets(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}
