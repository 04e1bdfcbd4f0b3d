import { CaError } from "../errors.ts";

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
 * @param longestMilliseconds Work under way for longer counts as lost. The next request does it again.
 */
export type WorkSharing = (room: WaitingRoom, longestMilliseconds: number) => SharedWork;

/** Bounds the number of requests that wait. */
export interface WaitingRoom {
  /** @throws CaError `too-many-waiting` */
  readonly enter: () => void;
  /** Gives the place back. Every request that has entered leaves once. */
  readonly leave: () => void;
}

/** @param whole A larger room, of which this one is a part: each request takes a place in both. */
export function createWaitingRoom(places: number, whole?: WaitingRoom): WaitingRoom {
  let taken = 0;
  return {
    enter: () => {
      if (taken >= places) {
        throw new CaError({ reason: "too-many-waiting" }, `${places} requests wait for the same`);
      }
      whole?.enter();
      taken++;
    },
    leave: () => {
      taken--;
      whole?.leave();
    },
  };
}
