import { pause } from "./pause.ts";
import { type WorkSharing, waitIn } from "./shared-work.ts";

const firstPauseMilliseconds = 20;
const longestPauseMilliseconds = 320;

/**
 * Shares work on every platform: requests poll its end, with pauses that grow. Workers
 * cancel a request that awaits the promise of another, and may drop one in the middle of its work.
 */
export const pollForWork =
  (clock: () => Date): WorkSharing =>
  (room, longestMilliseconds) => {
    let underWay: { readonly until: number } | undefined;

    async function begin(work: () => Promise<void>): Promise<void> {
      const mine = { until: clock().getTime() + longestMilliseconds };
      underWay = mine;
      try {
        await work();
      } finally {
        if (underWay === mine) underWay = undefined;
      }
    }

    async function wait(mine: object): Promise<void> {
      let left = longestMilliseconds;
      for (let next = firstPauseMilliseconds; underWay === mine && left > 0; left -= next) {
        await pause(next);
        next = Math.min(2 * next, longestPauseMilliseconds);
      }
    }

    return {
      join: async (work) => {
        const current = underWay;
        const isUnderWay = current && clock().getTime() < current.until;
        if (isUnderWay) await waitIn(room, () => wait(current));
        else if (work) await begin(work);
      },
    };
  };
