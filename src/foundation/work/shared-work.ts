import { CaError } from "../errors.ts";
import type { Semaphore } from "./semaphore.ts";

/** Work that one request does for all requests that need it at the same time. */
export interface SharedWork {
  /**
   * Does the work, or waits until the work under way has succeeded or failed. A request without work of
   * its own only waits. Only the request that does the work learns of a failure.
   *
   * @throws CaError `too-many-waiting` when the room is full.
   */
  readonly join: (work?: () => Promise<void>) => Promise<void>;
}

/**
 * Shares work in the way that a platform allows: a request on Node may await the promise of another
 * request, one on Workers may not.
 *
 * @param room Bounds the number of requests that wait.
 * @param longestMilliseconds Work under way for longer counts as lost. The next request does it again.
 */
export type WorkSharing = (room: Semaphore, longestMilliseconds: number) => SharedWork;

/**
 * Waits, as one of the requests that the room has place for.
 *
 * @throws CaError `too-many-waiting`
 */
export async function waitIn(room: Semaphore, wait: () => Promise<void>): Promise<void> {
  const waiting = room.tryRun(wait);
  if (!waiting) throw new CaError({ reason: "too-many-waiting" }, "too many wait for the same");
  await waiting;
}
