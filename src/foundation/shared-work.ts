import { CaError } from "./errors.ts";

/** Work that one request does for all that need it at the time. */
export interface SharedWork {
  /**
   * Does the work, or waits until the work under way has ended, well or badly. Without work of its own
   * the request only waits. Only the request that does the work learns of a failure.
   *
   * @throws CaError `too-many-waiting` when the room is full.
   */
  readonly join: (work?: () => Promise<void>) => Promise<void>;
}

/**
 * Shares work in the way that a platform allows: a request on Node may await the promise of another
 * request, one on Workers may not.
 *
 * @param longestMilliseconds Work under way for longer counts as lost, and the next request does it anew.
 */
export type WorkSharing = (room: WaitingRoom, longestMilliseconds: number) => SharedWork;

/** The places of requests that wait. */
export interface WaitingRoom {
  /** @throws CaError `too-many-waiting` */
  readonly enter: () => void;
  /** Gives the place back. Everybody who has entered leaves once. */
  readonly leave: () => void;
}

/** @param whole A larger room of which this one is a part: who enters takes a place in both. */
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
